"""How FlashInfer's sources are lowered to sm90, on sources of the same build."""

from pathlib import Path

import pytest

from testing.crosscheck.flashinfer_sm90 import KERNELS, LAUNCHER, lowered_sources

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


LAUNCH = """fn(NVFP44Over6Config<decltype(e4m3MaxTag)::value, decltype(errModeTag)::value,
    decltype(errUseFastMathTag)::value>{});"""


def sources(folder: Path, utils: str = UTILS, guards: int = 4, launch: str = LAUNCH) -> Path:
    (folder / KERNELS).mkdir(parents=True)
    (folder / KERNELS / "quantization_utils.cuh").write_text(utils)
    kernels = GUARD * guards + "quantize_with_block_size_tma(" + GUARD
    (folder / KERNELS / "quantization.cuh").write_text(kernels)
    (folder / LAUNCHER).parent.mkdir(parents=True)
    (folder / LAUNCHER).write_text(launch)
    return folder


def test_only_the_conversion_is_replaced(tmp_path: Path) -> None:
    folder = lowered_sources(sources(tmp_path / "source"), tmp_path / "lowered")
    utils = (folder / KERNELS / "quantization_utils.cuh").read_text()
    assert "satfinite.e2m1x2" not in utils
    assert utils.count("__nv_cvt_float2_to_fp4x2") == 1
    assert ">= 1000)\n  decode" in utils
    assert ">= 900)\n  arithmetic" in utils
    kernels = (folder / KERNELS / "quantization.cuh").read_text()
    assert kernels.count(">= 900") == 4
    assert kernels.endswith(GUARD)
    assert (folder / LAUNCHER).read_text() == "fn(std::false_type{});"


def test_sources_that_stay_keep_their_date(tmp_path: Path) -> None:
    source, folder = sources(tmp_path / "source"), tmp_path / "lowered"
    kept = lowered_sources(source, folder) / KERNELS / "quantization.cuh"
    before = kept.stat().st_mtime_ns
    lowered_sources(source, folder)
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("utils", "guards", "launch"),
    [
        (UTILS, 3, LAUNCH),
        (UTILS.replace("helper functions", "helpers"), 4, LAUNCH),
        (UTILS, 4, LAUNCH * 2),
    ],
)
def test_other_sources_are_refused(tmp_path: Path, utils: str, guards: int, launch: str) -> None:
    source = sources(tmp_path / "source", utils, guards, launch)
    with pytest.raises(ValueError, match=r"wanted as in flashinfer 0\.6\.13"):
        lowered_sources(source, tmp_path / "lowered")
