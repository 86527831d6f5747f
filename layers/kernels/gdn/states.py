"""The states of a batch's requests, gathered for kernels that know no slots, and put back."""

from __future__ import annotations

import torch

from layers.attention.gdn.metadata import GDNMetadata


def gather(ssm: torch.Tensor, metadata: GDNMetadata) -> torch.Tensor | None:
    """ssm (slots, Hv, Dk, Dv) -> (B, Hv, Dv, Dk) contiguous, values first; zeros for new requests.

    None where every request is new.
    """
    if not any(metadata.has_initial):
        return None
    states = ssm.mT[metadata.state_indices]
    if all(metadata.has_initial):
        return states
    assert metadata.has_initial_state is not None
    return states.masked_fill_(~metadata.has_initial_state[:, None, None, None], 0.0)


def scatter(ssm: torch.Tensor, states: torch.Tensor, metadata: GDNMetadata) -> None:
    """Puts (B, Hv, Dv, Dk) states into their slots."""
    ssm.mT.index_copy_(0, metadata.state_indices.long(), states)
