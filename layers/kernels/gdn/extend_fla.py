"""The gated delta rule over chunks of 64 tokens by flash-linear-attention's Triton kernels.

What is multiplied is rounded to the inputs' dtype first: q and k once normalised, β v, β e^G k and
the inverse (I + A)^-1 of `chunked`'s system, its products with both, scores, updates, and the state
before each chunk. Blocks of the inverse are put together in TF32. Sums, gates and the state that is
carried on are float32; a decay is the exponential of a difference of two sums from the chunk's
start, so that small ones behind a large one lose bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.capability import device_arch
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads
from layers.kernels.gdn.separate_triton import separate
from layers.kernels.gdn.states import gather, scatter

# By compute capability, as the package's own tuner may not take what races on another.
_CONFIGS = {(9, 0): Path(__file__).parent / "fla_configs" / "sm90"}


def _load() -> Callable[..., Any]:
    """The package's prefill, with its kernels' sizes fixed where they are known.

    The package reads these settings when it is imported. Its tuner would compile some forty kernels
    for each new shape, half a minute of them, and take now one and now another, which differ in
    their last bits; another package that is installed would take the call over.
    """
    folder = _CONFIGS.get(device_arch(torch.device("cuda", torch.cuda.current_device())))
    os.environ.setdefault("FLA_DISABLE_BACKEND_DISPATCH", "1")
    if folder is not None:
        os.environ.setdefault("FLA_CACHE_MODE", "default")
        os.environ.setdefault("FLA_CONFIG_DIR", str(folder))
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return chunk_gated_delta_rule  # type: ignore[no-any-return]


_chunk_gated_delta_rule = _load()


def extend(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """As `layers.kernels.gdn.chunked.extend`, of float16 or bfloat16 and Dk of at most 256."""
    q, k, v = separate(mixed.contiguous(), heads)
    g, beta = gates.values()
    out, states = _chunk_gated_delta_rule(
        *(x[None] for x in (q, k, v, g, beta)),
        scale=heads.scale,
        initial_state=gather(ssm, metadata),
        output_final_state=True,
        state_v_first=True,
        cu_seqlens=metadata.cu_seqlens,
        cu_seqlens_cpu=metadata.cu_seqlens_cpu,
    )
    scatter(ssm, states, metadata)
    return out[0]
