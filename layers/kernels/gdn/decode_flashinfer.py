"""The gated delta rule of one token a request by FlashInfer, on states where they lie.

The kernel is compiled for each batch size and number of slots, seconds each time: run a batch once
before it is captured in a CUDA graph. It computes norms and gates itself, with fast exponentials
and logarithms.
"""

from __future__ import annotations

import torch
from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads


def decode(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """As `layers.kernels.gdn.recurrent.decode`, all of bfloat16 and Dk = Dv = 128."""
    # Compiled for contiguous memory, whatever the first call gives.
    q, k, v = (x.contiguous()[:, None] for x in heads.split(mixed))
    a, b = (x.contiguous()[:, None] for x in (gates.a, gates.b))
    out, _ = gated_delta_rule_decode_pretranspose(
        *(q, k, v, None),
        A_log=gates.a_log,
        a=a,
        dt_bias=gates.dt_bias,
        b=b,
        scale=heads.scale,
        output=torch.empty_like(v),
        use_qk_l2norm=True,
        initial_state=ssm.mT,
        initial_state_indices=metadata.state_indices,
    )
    return out[:, 0]
