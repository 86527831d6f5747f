"""From the folder of a Hugging Face checkpoint to a model that is ready for forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from layers.models.attention_backend import attention_ready_at_once
from layers.models.build import Backends, Build
from layers.models.causal_lm import CausalLM
from layers.models.checkpoint.cache_scales import incomplete_cache_scales, load_cache_scales
from layers.models.checkpoint.check import problems_of
from layers.models.checkpoint.files import CheckpointFiles
from layers.models.config.base import DTYPES, ModelConfig
from layers.models.config.counts import check_counts
from layers.models.config.keys import Keys
from layers.models.config.read import read_config
from layers.models.deepseek import deepseek
from layers.models.errors import UNREADABLE, CheckpointError, ModelConfigError
from layers.models.gpt_oss import gpt_oss
from layers.models.llama import llama
from layers.models.names import PACKED_MODULES
from layers.models.quantization import quantization_of
from layers.weights import load_weights, process_weights_after_loading

BUILDERS: dict[str, Callable[[Build, ModelConfig], CausalLM]] = {
    "DeepseekV3ForCausalLM": deepseek,
    "GptOssForCausalLM": gpt_oss,
    "LlamaForCausalLM": llama,
}

FASTEST = "fastest"
_KINDS = ("attention", "linear", "moe")


def check_checkpoint(folder: Path) -> None:
    """Reads the names, shapes and dtypes of a folder's tensors, and no values.

    Args:
        folder: with config.json, and model.safetensors or shards with their index.

    Raises:
        ModelConfigError: config.json says something that no model here is.
        CheckpointError: listing each tensor that is missing, surplus, or of another shape or
            dtype, and each file that is missing or damaged.
    """
    config = read_config(folder)
    build = Build(torch.device("meta"), config.params_dtype or torch.bfloat16)
    _check(_quantised(build, config), config, CheckpointFiles(folder), folder)


def load_model(
    folder: Path,
    *,
    device: torch.device | str | None = None,
    params_dtype: torch.dtype | None = None,
    backend: str | Mapping[str, str] = "auto",
    with_draft: bool = True,
) -> CausalLM:
    """A model of the folder's architecture, its weights checked, loaded and made ready.

    How it divides over processes is said by `layers.distributed.parallel_state`; every process
    calls this with the same folder.

    Args:
        folder: with config.json, and model.safetensors or shards with their index.
        device: where the model runs; None is torch's default device.
        params_dtype: float16 or bfloat16; None is config.json's.
        backend: "auto", a name for all layers, or names by kind: "attention", "linear", "moe".
            "auto" chooses by capability; attention so that nothing has to be built by a C++
            compiler first (`attention_ready_at_once`), unless it is asked to be the "fastest".
        with_draft: also the module that drafts tokens, where the checkpoint has one.

    Raises:
        ModelConfigError: config.json, or an argument, says something that no model here is.
        CheckpointError: listing all that is wrong with the tensors; before any is loaded, but for
            values that cannot be used.
        BackendUnavailable: a backend was asked for that cannot run here.
    """
    config = read_config(folder)
    dtype = config.params_dtype if params_dtype is None else params_dtype
    if dtype not in DTYPES.values():
        raise ModelConfigError(
            f"the dtype of '{Path(folder) / 'config.json'}' is {dtype or 'none of these'}, wanted "
            f"float16 or bfloat16. Pass params_dtype=torch.bfloat16, say."
        )
    real = torch.empty(0, device=device).device
    backends = backends_of(backend, real, config)
    build = _quantised(Build(real, dtype, backends=backends), config)
    files = CheckpointFiles(folder)
    on_meta = replace(build, device=torch.device("meta"))
    wanted = _check(on_meta, config, files, folder)
    if not with_draft and config.num_draft_layers:
        config = replace(config, num_draft_layers=0)
        wanted = _built(on_meta, config)
    model = _built(build, config)
    model.eval()
    _load(model, files, wanted, folder)
    return model


def _load(model: CausalLM, files: CheckpointFiles, wanted: CausalLM, folder: Path) -> None:
    """Fills a model with the tensors that `wanted`, the same on the meta device, names."""
    problems = _unequal_copies(files, wanted.copied_tensors())
    if model.config.has_cache_scales:
        problems += load_cache_scales(files, model.attentions())
    if problems:
        raise CheckpointError(str(folder), problems)
    try:
        load_weights(model, model.adapted(files.load(wanted.wanted_tensors())), PACKED_MODULES)
        process_weights_after_loading(model)
    # Also of scales that only the format's own post-load reads.
    except ValueError as error:
        raise CheckpointError(str(folder), [str(error)]) from error


def _check(build: Build, config: ModelConfig, files: CheckpointFiles, folder: Path) -> CausalLM:
    """The model on the meta device, whose tensors the folder has."""
    try:
        check_counts(Keys.read(Path(folder) / "config.json"), files.tensors)
    except ModelConfigError as error:
        # What a file lacks that cannot be read is no fault of the config.
        if files.problems:
            raise CheckpointError(str(folder), files.problems) from error
        raise
    model = _built(build, config)
    absent = incomplete_cache_scales(files, model.attentions()) if config.has_cache_scales else []
    problems = problems_of(files, model.wanted_tensors(), model.spare_tensors(), absent)
    if problems:
        raise CheckpointError(str(folder), problems)
    return model


def _unequal_copies(files: CheckpointFiles, copies: Mapping[str, str]) -> list[str]:
    """Tensors of the draft that are the main model's: nothing here computes with others."""
    problems = []
    for name, original in copies.items():
        if name not in files.tensors:
            continue
        tensors = dict(files.load([name, original]))
        # Float32 holds every value of the dtypes that either may have.
        if not torch.equal(tensors[name].float(), tensors[original].float()):
            problems.append(f"'{name}' differs from '{original}', wanted a copy of it, or none")
    return problems


def _built(build: Build, config: ModelConfig) -> CausalLM:
    try:
        return BUILDERS[config.architecture](build, config)
    except ModelConfigError:
        raise
    except ValueError as error:
        raise ModelConfigError(
            f"the model cannot be built as config.json has it: {error}"
        ) from error
    except UNREADABLE as error:
        raise ModelConfigError(
            f"the model cannot be built as config.json has it ({type(error).__name__}: {error}). "
            f"Correct it, quantization_config above all."
        ) from error


def _quantised(build: Build, config: ModelConfig) -> Build:
    quant = quantization_of(config.quantization, PACKED_MODULES, build.backends.linear)
    return replace(build, quant_config=quant)


def backends_of(
    backend: str | Mapping[str, str], device: torch.device, config: ModelConfig
) -> Backends:
    """What `load_model`'s argument asks for, on a device.

    Raises:
        ModelConfigError: a kind of layer that is none.
    """
    if isinstance(backend, str):
        backend = dict.fromkeys(_KINDS, backend)
    unknown = sorted(set(backend) - set(_KINDS))
    if unknown:
        raise ModelConfigError(
            f"backend names the kind of layer {unknown[0]!r}, wanted 'attention', 'linear' or "
            f"'moe'."
        )
    names = {kind: None if name == "auto" else name for kind, name in backend.items()}
    attention = names.get("attention")
    if attention is None:
        names["attention"] = attention_ready_at_once(device, config)
    elif attention == FASTEST:
        names["attention"] = None
    return Backends(**names)
