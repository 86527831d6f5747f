"""What the command line says."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LOADER = "layers.models.load:load_model"


class OptionError(ValueError):
    """Options that contradict each other or the machine."""


@dataclass(frozen=True)
class Options:
    """The server's settings; `--help` says what each is."""

    model: Path
    host: str
    port: int
    served_model_name: str
    tokenizer_workers: int
    detokenizer_workers: int
    max_requests: int
    max_body_bytes: int
    device: str
    dtype: str
    kv_cache_dtype: str
    backend: str
    attention_backend: str | None
    tensor_parallel: int
    expert_parallel: int
    page_size: int
    kv_tokens: int | None
    memory_fraction: float
    context_length: int | None
    max_running: int
    step_tokens: int
    prefix_cache: bool
    warm_up: bool
    cuda_graphs: bool
    speculative: str
    draft_tokens: int
    torch_threads: int | None
    loader: str

    @property
    def num_drafts(self) -> int:
        """Tokens proposed for each text and step; 0 without speculation."""
        return self.draft_tokens if self.speculative == "mtp" else 0

    @property
    def backends(self) -> str | dict[str, str]:
        """As a loader takes them: one name, or names by kind of layer."""
        if self.attention_backend is None:
            return self.backend
        return {
            "attention": self.attention_backend,
            "linear": self.backend,
            "moe": self.backend,
        }

    @property
    def threads_per_rank(self) -> int:
        """Of torch, in each rank's process."""
        cores = len(os.sched_getaffinity(0))
        return self.torch_threads or max(1, cores // self.tensor_parallel)


def parse(arguments: Sequence[str]) -> Options:
    """Reads the command line; `argparse` itself ends the process for what it cannot read.

    Raises:
        OptionError: a value that cannot be, with what to write instead.
    """
    values = vars(_parser().parse_args(arguments))
    # `bazel run` starts programs elsewhere, and says where it was called.
    values["model"] = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), values["model"])
    values["served_model_name"] = values["served_model_name"] or values["model"].resolve().name
    options = Options(**values)
    _check(options)
    return options


def _check(options: Options) -> None:
    if not options.model.is_dir():
        raise OptionError(f"--model {options.model} is no folder: wanted one with a config.json")
    for name, most in _COUNTS.items():
        value = getattr(options, name.replace("-", "_"))
        if value is not None and not 1 <= value <= (most or value):
            wanted = "1 or more" if most is None else f"1 to {most}"
            raise OptionError(f"--{name} is {value}, wanted {wanted}")
    if not options.host:
        raise OptionError("--host is empty: wanted an address, 0.0.0.0 for all of this machine's")
    if not 0 <= options.port < 65536:
        raise OptionError(f"--port is {options.port}, wanted 0 (any free one) to 65535")
    if not 0 < options.memory_fraction < 1:
        raise OptionError(f"--memory-fraction is {options.memory_fraction}, wanted 0 to 1")
    if options.tensor_parallel % options.expert_parallel:
        raise OptionError(
            f"--expert-parallel {options.expert_parallel} does not divide --tensor-parallel "
            f"{options.tensor_parallel}: experts are spread over the tensor parallel ranks"
        )
    decodes = options.max_running * (1 + options.num_drafts)
    if options.step_tokens <= decodes:
        raise OptionError(
            f"--step-tokens is {options.step_tokens}, wanted more than {decodes}: --max-running "
            f"{options.max_running} texts of {1 + options.num_drafts} tokens a step leave no room "
            f"for a prompt"
        )
    if options.loader.count(":") != 1:
        raise OptionError(f"--loader is '{options.loader}', wanted MODULE:FUNCTION")


# Processes of one host are started at once, each with its own memory, and threads have stacks.
_MOST_WORKERS = 256
_MOST_RANKS = 64
_MOST_THREADS = 1024
# To the most that can be; None leaves it to the model and the machine.
_COUNTS = {
    "tokenizer-workers": _MOST_WORKERS,
    "detokenizer-workers": _MOST_WORKERS,
    "max-requests": None,
    "max-body-bytes": None,
    "tensor-parallel": _MOST_RANKS,
    "expert-parallel": _MOST_RANKS,
    "kv-tokens": None,
    "context-length": None,
    "max-running": None,
    "draft-tokens": None,
    "torch-threads": _MOST_THREADS,
}


def _folder(text: str) -> Path:
    if not text:
        # pathlib would take it for the working folder.
        raise argparse.ArgumentTypeError("is empty, wanted a folder with a config.json")
    return Path(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m layers.serving",
        description="Serves a model over an OpenAI-compatible HTTP interface.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--model",
        type=_folder,
        required=True,
        help="folder with config.json, safetensors, tokenizer",
    )
    add("--served-model-name", help="what requests call it; by default the folder's name")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=0, help="0 takes any free one; the ready line names it")
    add("--tokenizer-workers", type=int, default=1, help="processes that turn text into tokens")
    add("--detokenizer-workers", type=int, default=1, help="processes that turn tokens into text")
    add("--max-requests", type=int, default=512, help="texts in the making; others get a 429")
    add("--max-body-bytes", type=int, default=2**24, help="of a request; longer ones get a 413")
    _add_device(parser)
    _add_scheduling(parser)
    return parser


def _add_device(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--device", default="auto", choices=["auto", "cpu", "cuda"], help="auto: cuda if there")
    dtypes = ["auto", "bfloat16", "float16"]
    add("--dtype", default="auto", choices=dtypes, help="auto: the checkpoint's")
    cached = [*dtypes, "float8_e4m3fn"]
    add(
        "--kv-cache-dtype",
        default="auto",
        choices=cached,
        help="auto: that of --dtype, whatever the checkpoint says",
    )
    backends = ["auto", "torch", "triton", "flashinfer"]
    add("--backend", default="auto", choices=backends, help="kernels of all layers")
    attention = ["auto", "fastest", "torch", "triton", "flashinfer"]
    what = "those of attention; fastest may be FlashInfer's, built for minutes at the first start"
    add("--attention-backend", choices=attention, help=f"{what}; by default as --backend")
    add("--tensor-parallel", type=int, default=1, help="ranks that split each layer")
    add("--expert-parallel", type=int, default=1, help="ranks of these that share out experts")
    add("--torch-threads", type=int, help="of each rank; by default the cores over the ranks")
    add("--no-warm-up", dest="warm_up", action="store_false", help="compile kernels when called")
    add("--no-cuda-graphs", dest="cuda_graphs", action="store_false", help="decode from Python")
    add("--loader", default=DEFAULT_LOADER, help="MODULE:FUNCTION that loads the model's folder")


def _add_scheduling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    sizes = [1, 16, 32, 64]
    add("--page-size", type=int, default=16, choices=sizes, help="tokens of a page of the cache")
    add("--kv-tokens", type=int, help="tokens in the cache; default 32768, or on cuda what fits")
    add("--memory-fraction", type=float, default=0.85, help="of the GPU's free memory, for that")
    add("--context-length", type=int, help="tokens of a text, by default what the model takes")
    add("--max-running", type=int, default=64, help="texts of one step")
    add("--step-tokens", type=int, default=1024, help="tokens of one step")
    off = "store_false"
    add("--no-prefix-cache", dest="prefix_cache", action=off, help="compute each prompt afresh")
    kinds = ["none", "mtp"]
    add(
        "--speculative", default="none", choices=kinds, help="mtp: drafts by the model's own module"
    )
    add("--draft-tokens", type=int, default=3, help="drafts of a text and step, with mtp")
