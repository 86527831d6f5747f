"""The trim that is replayed: what its author deleted, merged and added, and in which suites."""

from __future__ import annotations

from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent / "h100"
B, C, B200 = "_base_b_1_gpu_large", "_base_c_4_gpu_h100", "_base_b_4_gpu_b200"
DROP = (
    f"//attention:triton_backend_test{B}",
    f"//mla:flashinfer_mtp_test{B}",
    f"//mla:flashmla_mtp_test{B}",
    f"//models:gpt_oss_120b_bf16_test{C}",
)
MERGE = (f"//tokenizer:multi_tokenizer_test{B}", f"//tokenizer:multi_detokenizer_test{B}")
ADD = "//quant:int8_linear_methods_test"
NEW = (f"{ADD}{B}", f"{ADD}{B200}")
AUTHOR = {"base-b-test-1-gpu-large": -548, "base-c-test-4-gpu-h100": -220}
"""Seconds by suite, as the author counted them."""


def options() -> list[str]:
    """The options of `plumb trim` that ask for it."""
    dropped = [word for label in DROP for word in ("--drop", label)]
    added = [word for label in NEW for word in ("--add", label)]
    return [*dropped, "--merge", "+".join(MERGE), *added]
