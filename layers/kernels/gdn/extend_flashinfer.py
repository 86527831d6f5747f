"""The gated delta rule over chunks of tokens by FlashInfer; sm100's kernel never ran here.

Queries and keys are rounded to the inputs' dtype once they are normalised.
"""

from __future__ import annotations

import torch
from flashinfer.gdn_prefill import chunk_gated_delta_rule

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads
from layers.kernels.gdn.separate_triton import separate
from layers.kernels.gdn.states import gather, scatter


def extend(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """As `layers.kernels.gdn.chunked.extend`, of float16 or bfloat16 and Dk = Dv = 128."""
    q, k, v = separate(mixed.contiguous(), heads)
    g, beta = gates.values()
    shape = (metadata.num_requests, heads.num_v_heads, heads.head_v_dim, heads.head_k_dim)
    out, states = chunk_gated_delta_rule(
        *(q, k, v, g.exp(), beta),
        scale=heads.scale,
        initial_state=gather(ssm, metadata),
        output_final_state=True,
        cu_seqlens=metadata.cu_seqlens,
        output=torch.empty_like(v),
        output_state=ssm.new_empty(shape),
    )
    scatter(ssm, states, metadata)
    return out
