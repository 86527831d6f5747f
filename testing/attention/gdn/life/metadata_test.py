"""What kernels read of a batch of gated delta requests, by figures worked out by hand."""

import pytest
import torch

from layers.attention.gdn.metadata import GDNMetadata


def test_texts() -> None:
    batch = GDNMetadata.extend([3, 1, 2], [5, 0, 9], [True, False, True])

    assert batch.cu_seqlens is not None and batch.cu_seqlens_cpu is not None
    assert batch.request_of_token is not None and batch.has_initial_state is not None
    assert batch.cu_seqlens.tolist() == batch.cu_seqlens_cpu.tolist() == [0, 3, 4, 6]
    assert batch.request_of_token.tolist() == [0, 0, 0, 1, 2, 2]
    assert batch.state_indices.tolist() == [5, 0, 9]
    assert batch.has_initial_state.tolist() == [True, False, True]
    assert (batch.num_requests, batch.num_tokens) == (3, 6)
    assert (batch.cu_seqlens.dtype, batch.request_of_token.dtype) == (torch.int32, torch.int32)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_decodes_slots_are_the_callers_tensor(dtype: torch.dtype) -> None:
    slots = torch.tensor([4, 2], dtype=dtype)

    batch = GDNMetadata.decode(slots)
    slots.copy_(torch.tensor([1, 7]))

    # A graph that was captured reads what stands there at its replay.
    assert batch.state_indices.tolist() == [1, 7]
    assert (batch.num_requests, batch.num_tokens) == (2, 2)
