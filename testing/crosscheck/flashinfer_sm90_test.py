"""How FlashInfer's headers are lowered to sm90, on headers of the same build."""

from pathlib import Path

import pytest

from testing.crosscheck.flashinfer_sm90 import KERNELS, lowered_headers

GUARD = "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1000)\n"
UTILS = f"""#pragma once
inline __device__ uint32_t fp32_vec_to_e2m1(float (&array)[8]) {{
{GUARD}  asm volatile("cvt.rn.satfinite.e2m1x2.f32");
#endif
}}
inline __device__ uint32_t elect_one_sync() {{}}
{GUARD}  decode
#endif
// Quantization helper functions
{GUARD}  arithmetic
#endif
"""


def headers(folder: Path, utils: str, guards: int) -> Path:
    (folder / KERNELS).mkdir(parents=True)
    (folder / KERNELS / "quantization_utils.cuh").write_text(utils)
    (folder / KERNELS / "quantization.cuh").write_text(GUARD * guards)
    return folder


def test_only_the_conversion_is_replaced(tmp_path: Path) -> None:
    folder = lowered_headers(headers(tmp_path / "source", UTILS, 6), tmp_path / "lowered")
    utils = (folder / KERNELS / "quantization_utils.cuh").read_text()
    assert "satfinite.e2m1x2" not in utils
    assert utils.count("__nv_cvt_float2_to_fp4x2") == 1
    assert ">= 1000)\n  decode" in utils
    assert ">= 900)\n  arithmetic" in utils
    assert ">= 1000" not in (folder / KERNELS / "quantization.cuh").read_text()


def test_headers_of_today_keep_their_date(tmp_path: Path) -> None:
    source, folder = headers(tmp_path / "source", UTILS, 6), tmp_path / "lowered"
    kept = lowered_headers(source, folder) / KERNELS / "quantization.cuh"
    before = kept.stat().st_mtime_ns
    lowered_headers(source, folder)
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("utils", "guards"), [(UTILS, 0), (UTILS.replace("helper functions", "helpers"), 6)]
)
def test_other_headers_are_refused(tmp_path: Path, utils: str, guards: int) -> None:
    with pytest.raises(ValueError, match=r"wanted as in flashinfer 0\.6\.13"):
        lowered_headers(headers(tmp_path / "source", utils, guards), tmp_path / "lowered")
