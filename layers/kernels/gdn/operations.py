"""Backends of the gated delta rule and of its convolution, chosen by device, dtype and head sizes.

A problem's K is the head size of keys and its N that of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation


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
    from layers.kernels.gdn.chunked_fla import extend

    return extend


def _load_triton_decode() -> Callable[..., Any]:
    from layers.kernels.gdn.recurrent_triton import decode

    return decode


_HALVES = (torch.float16, torch.bfloat16)
_TRITON = Needs(package="triton", min_arch=(8, 0))
# The package keeps a state in four blocks of 64 keys.
_FLA = Needs(package="fla", min_arch=(8, 0), dtypes=_HALVES, k_max=256)
# A head's keys stay in one program's registers.
_TRITON_DECODE = Needs(package="triton", min_arch=(8, 0), k_max=256)

GDN_CONV = Operation(
    "gdn_conv",
    (Backend("triton", _TRITON, _load_triton_conv), Backend("torch", Needs(), _load_torch_conv)),
)
GDN_EXTEND = Operation(
    "gdn_extend",
    (
        Backend("triton", _FLA, _load_triton_extend),
        Backend("torch", Needs(), _load_torch_extend),
    ),
)
GDN_DECODE = Operation(
    "gdn_decode",
    (
        Backend("triton", _TRITON_DECODE, _load_triton_decode),
        Backend("torch", Needs(), _load_torch_decode),
    ),
)
