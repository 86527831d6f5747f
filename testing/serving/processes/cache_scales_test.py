"""A checkpoint that was calibrated for an FP8 cache says at the start which option uses it."""

from pathlib import Path

import pytest

from testing.oracles.models.configs import LLAMA
from testing.serving.checkpoints import write_checkpoint
from testing.serving.server import running_server

SAYS = "this one is of 16 bits: --kv-cache-dtype float8_e4m3fn takes half its memory."
# No linear layer is quantised, so that plain tensors will do.
CALIBRATED = {
    "quant_method": "modelopt_fp4",
    "quant_algo": "NVFP4",
    "kv_cache_quant_algo": "FP8",
    "exclude_modules": ["*"],
}
PLAIN = {**CALIBRATED, "kv_cache_quant_algo": None}
FP8 = ("--kv-cache-dtype", "float8_e4m3fn")


@pytest.mark.parametrize(
    ("quantization", "options", "times"),
    [
        (CALIBRATED, (), 1),
        (CALIBRATED, ("--kv-cache-dtype", "bfloat16"), 1),
        # One rank of two speaks for both.
        (CALIBRATED, ("--tensor-parallel", "2"), 1),
        (CALIBRATED, FP8, 0),
        (PLAIN, (), 0),
    ],
)
def test_the_option_is_named_once_where_it_would_change_something(
    quantization: dict[str, object], options: tuple[str, ...], times: int, tmp_path: Path
) -> None:
    config = {**LLAMA, "quantization_config": quantization}
    folder = write_checkpoint(tmp_path / "model", config)
    with running_server(folder, "--torch-threads", "1", *options) as server:
        assert server.output().count(SAYS) == times, server.output()
