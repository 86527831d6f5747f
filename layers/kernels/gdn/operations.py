"""Backends of the gated delta rule and of its convolution, chosen by device, dtype and head sizes.

A problem's K is the head size of keys and its N that of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


GDN_CONV = Operation("gdn_conv", (Backend("torch", Needs(), _load_torch_conv),))
GDN_EXTEND = Operation("gdn_extend", (Backend("torch", Needs(), _load_torch_extend),))
GDN_DECODE = Operation("gdn_decode", (Backend("torch", Needs(), _load_torch_decode),))
