"""Backends of the gated delta rule and of its convolution, chosen by device, dtype and head sizes.

A problem's K is the head size of keys and its N that of values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from layers.kernels.capability import (
    Backend,
    Needs,
    Operation,
    Problem,
    device_arch,
    installed_version,
    is_installed,
)

HALVES = (torch.float16, torch.bfloat16)


def _load_torch_conv() -> Callable[..., Any]:
    from layers.kernels.gdn.conv import convolve

    return convolve


def _load_torch_extend() -> Callable[..., Any]:
    from layers.kernels.gdn.chunked import extend

    return extend


def _load_torch_decode() -> Callable[..., Any]:
    from layers.kernels.gdn.recurrent import decode

    return decode


def _load_triton_conv() -> Callable[..., Any]:
    from layers.kernels.gdn.conv_triton import convolve

    return convolve


def _load_triton_extend() -> Callable[..., Any]:
    from layers.kernels.gdn.extend_fla import extend

    return extend


def _load_triton_decode() -> Callable[..., Any]:
    from layers.kernels.gdn.recurrent_triton import decode

    return decode


def _load_flashinfer_extend() -> Callable[..., Any]:
    from layers.kernels.gdn.extend_flashinfer import extend

    return extend


def _load_flashinfer_decode() -> Callable[..., Any]:
    from layers.kernels.gdn.decode_flashinfer import decode

    return decode


@dataclass(frozen=True)
class _FlashInferNeeds(Needs):
    """Of FlashInfer's kernels, whose tiles are one head of 128.

    `cute_from` is the first release and the first device whose kernel is written in CuTe DSL.
    """

    package: str | None = "flashinfer"
    min_arch: tuple[int, int] | None = (9, 0)
    max_arch: tuple[int, int] | None = (10, 3)
    dtypes: tuple[torch.dtype, ...] = HALVES
    cute_from: tuple[tuple[int, ...], tuple[int, int]] = ((0,), (9, 0))

    def unmet(self, device: torch.device, problem: Problem) -> str | None:
        """Why the backend cannot run, or None if it can."""
        if (problem.k, problem.n) != (128, 128):
            return f"needs head_k_dim and head_v_dim of 128, they are {problem.k} and {problem.n}"
        return super().unmet(device, problem) or self._unmet_cute(device)

    def _unmet_cute(self, device: torch.device) -> str | None:
        release, arch = self.cute_from
        is_cute = (installed_version("flashinfer") or ()) >= release or device_arch(device) >= arch
        if is_cute and not is_installed("cutlass"):
            return "needs the Python package 'nvidia-cutlass-dsl', which is not installed"
        return None


# The package keeps a state in four blocks of 64 keys.
_FLA = Needs(package="fla", min_arch=(8, 0), dtypes=HALVES, k_max=256)
_TRITON = Needs(package="triton", min_arch=(8, 0))
# A head's keys stay in one program's registers.
_TRITON_DECODE = Needs(package="triton", min_arch=(8, 0), k_max=256)
# Compiled by nvcc for sm90 until 0.7, some minutes at the first call.
_FLASHINFER_EXTEND = _FlashInferNeeds(cute_from=((0, 7), (10, 0)))
# Its output is bfloat16, whatever the inputs are.
_FLASHINFER_DECODE = _FlashInferNeeds(dtypes=(torch.bfloat16,))

GDN_CONV = Operation(
    "gdn_conv",
    (Backend("triton", _TRITON, _load_triton_conv), Backend("torch", Needs(), _load_torch_conv)),
)
GDN_EXTEND = Operation(
    "gdn_extend",
    (
        Backend("triton", _FLA, _load_triton_extend),
        Backend("flashinfer", _FLASHINFER_EXTEND, _load_flashinfer_extend),
        Backend("torch", Needs(), _load_torch_extend),
    ),
)
GDN_DECODE = Operation(
    "gdn_decode",
    (
        Backend("triton", _TRITON_DECODE, _load_triton_decode),
        Backend("flashinfer", _FLASHINFER_DECODE, _load_flashinfer_decode),
        Backend("torch", Needs(), _load_torch_decode),
    ),
)
