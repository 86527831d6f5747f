"""FlashInfer's block quantisers on an sm90, which lacks one instruction that they use.

Their kernels stand between `#if __CUDA_ARCH__ >= 1000` and `#endif`: below sm100 fp4_quantize,
mxfp4_quantize and mxfp8_quantize compile, run, and write nothing at all (quantization.cuh of 0.6.13
and 0.7.4; in the PTX for sm_90a each quantize_with_block_size is a single `ret`). Of what is
inside, only `cvt.rn.satfinite.e2m1x2.f32` needs sm100. So here the same sources are compiled with
the guards lowered to 900, and that conversion is done by CUDA's own function for devices without
it, `__nv_cvt_float2_to_fp4x2` (cuda_fp4.h): scales, reciprocals, their order, padding and swizzle
are FlashInfer's, run on the card.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

KERNELS = "tensorrt_llm/kernels"
LAUNCHER = "cpp/kernels/quantization.cu"
_GUARD = "(__CUDA_ARCH__ >= 1000)"
_LOWERED = "(__CUDA_ARCH__ >= 900)"
# The guards before the kernel for M from 1024 on, which is left as it is; no test asks for it.
_TMA = "quantize_with_block_size_tma"
_GUARDS = 4
# Variants of a recipe (4over6) that no test asks for, and that most of the compiler's time goes to.
_VARIANTS = re.compile(r"NVFP44Over6Config<decltype\(e4m3MaxTag\)::value[^>]*>\{\}")
# The conversions to e2m1 lie between these two, and what is guarded after the third is arithmetic.
_FIRST_CONVERSION = "inline __device__ uint32_t fp32_vec_to_e2m1(float (&array)[8])"
_AFTER_CONVERSIONS = "inline __device__ uint32_t elect_one_sync()"
_ARITHMETIC = "// Quantization helper functions"
_CONVERSIONS = """
inline __device__ uint64_t plumbline_e2m1(float const* values, int pairs) {
  uint64_t bytes = 0;
  for (int i = 0; i < pairs; i++) {
    float2 const pair = make_float2(values[2 * i], values[2 * i + 1]);
    uint64_t const byte = __nv_cvt_float2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest);
    bytes |= byte << (8 * i);
  }
  return bytes;
}
inline __device__ uint32_t fp32_vec_to_e2m1(float (&array)[8]) {
  return static_cast<uint32_t>(plumbline_e2m1(array, 4));
}
inline __device__ uint32_t fp32_vec_to_e2m1(float2 (&array)[4]) {
  return static_cast<uint32_t>(plumbline_e2m1(&array[0].x, 4));
}
inline __device__ uint64_t fp32_vec_to_e2m1(float2 (&array)[8]) {
  return plumbline_e2m1(&array[0].x, 8);
}
"""


def lowered_sources(source: Path, folder: Path) -> Path:
    """Writes headers and launcher for sm90 below `folder`, from FlashInfer's csrc/nv_internal.

    Raises ValueError if they do not look like those of 0.6.13 and 0.7.4: read them again then.
    """
    utils = (source / KERNELS / "quantization_utils.cuh").read_text()
    kernels = (source / KERNELS / "quantization.cuh").read_text()
    launcher, variants = _VARIANTS.subn("std::false_type{}", (source / LAUNCHER).read_text())
    wanted, tma = kernels.split(_TMA, maxsplit=1) if _TMA in kernels else ("", "")
    marks = (_FIRST_CONVERSION, _AFTER_CONVERSIONS, _ARITHMETIC)
    as_known = all(utils.count(mark) == 1 for mark in marks) and variants == 1
    if not as_known or wanted.count(_GUARD) != _GUARDS:
        raise ValueError(
            f"{source}: {KERNELS}/quantization*.cuh or {LAUNCHER}, wanted as in flashinfer 0.6.13; "
            "see which of their guards keep the kernels from sm90"
        )
    before, rest = utils.split(_FIRST_CONVERSION)
    between, arithmetic = rest.split(_AFTER_CONVERSIONS)[1].split(_ARITHMETIC)
    _write(
        folder / KERNELS / "quantization_utils.cuh",
        before.replace("#pragma once", "#pragma once\n#include <cuda_fp4.h>")
        + _CONVERSIONS
        + _AFTER_CONVERSIONS
        + between
        + _ARITHMETIC
        + arithmetic.replace(_GUARD, _LOWERED),
    )
    _write(folder / KERNELS / "quantization.cuh", wanted.replace(_GUARD, _LOWERED) + _TMA + tma)
    _write(folder / LAUNCHER, launcher)
    return folder


def _write(path: Path, text: str) -> None:
    # A header with a new date would be compiled again.
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@contextmanager
def quantisers() -> Iterator[None]:
    """Makes FlashInfer compile its quantisers for sm90 from lowered headers, all into one module.

    For the length of the context. FlashInfer keeps a module that it has loaded, so nothing else of
    this process may have called a quantiser before.
    """
    from flashinfer.jit import env
    from flashinfer.quantization import fp4_quantization, fp8_quantization

    csrc = env.FLASHINFER_CSRC_DIR / "nv_internal"
    lowered = lowered_sources(csrc, env.FLASHINFER_GEN_SRC_DIR / "plumbline_sm90")
    generator = fp4_quantization.gen_fp4_quantization_sm90_module

    def quantisers_for_sm90() -> Any:
        spec = generator()
        others = [path for path in spec.sources if path.name != Path(LAUNCHER).name]
        return dataclasses.replace(
            spec,
            name="plumbline_quantisers_sm90",
            sources=[lowered / LAUNCHER, *others, csrc / "tensorrt_llm/thop/fp8Quantize.cpp"],
            extra_include_dirs=[lowered, *spec.extra_include_dirs],
        )

    with (
        mock.patch.object(
            fp4_quantization, "gen_fp4_quantization_sm90_module", quantisers_for_sm90
        ),
        mock.patch.object(
            fp8_quantization, "gen_mxfp8_quantization_sm100_module", quantisers_for_sm90
        ),
    ):
        yield
