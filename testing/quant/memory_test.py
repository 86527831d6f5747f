"""After post-load a layer holds its checkpoint's bytes, with scales as its kernel wants them."""

import numpy as np
import pytest
import torch

from testing.harness.device import device
from testing.harness.linear import LinearCase, LoadedLinear, Method, build
from testing.harness.reachable import all_storages, storages, tensors_within
from testing.oracles.checkpoints import LinearCheckpoint
from testing.quant.every_method import everything_here, names_of

PAIRS = everything_here()
EACH = pytest.mark.parametrize(("method", "backend"), PAIRS, ids=names_of(PAIRS))
N, K = 384, 1024
# A scalar, a table of 16 codes: what a method may keep besides.
SMALL_CHANGE = 1024


def built(method: Method, backend: str | None) -> tuple[LinearCheckpoint, LoadedLinear]:
    case = LinearCase(
        method, "merged", 4, {"gate": 256, "up": 128}, K, backend=backend, one_scale=True
    )
    checkpoint = case.checkpoint(np.random.default_rng(80))
    return checkpoint, build(case, checkpoint, device())


def allowed(checkpoint: LinearCheckpoint) -> int:
    """Bytes of the weight, and of its scales as a kernel may want them.

    Block scales may be padded to tiles of 128 rows and 4 columns; a scale a shard may become one
    fp32 a row, with alpha beside it.
    """
    total = SMALL_CHANGE
    for tensors in checkpoint.tensors.values():
        for suffix, array in tensors.items():
            rows = array.shape[0] if array.ndim else 0
            if suffix == "weight":
                total += array.nbytes
            elif rows > 1 and array.ndim == 2 and array.shape[1] > 1:
                columns = -(-array.shape[1] // 4) * 4
                total += -(-rows // 128) * 128 * columns * array.itemsize
            else:
                total += 4 * checkpoint.layout.n
    return total


@EACH
def test_what_is_within_the_layers_reach(method: Method, backend: str | None) -> None:
    checkpoint, loaded = built(method, backend)
    held = storages(tensors_within([loaded.layer, loaded.layer.quant_method]))
    assert sum(held.values()) <= allowed(checkpoint), held


@EACH
def test_no_copy_of_a_weight_in_a_wider_type(method: Method, backend: str | None) -> None:
    checkpoint, loaded = built(method, backend)
    weights = [t["weight"] for t in checkpoint.tensors.values()]
    widest = max(w.itemsize for w in weights)
    for tensor in tensors_within([loaded.layer, loaded.layer.quant_method]):
        assert tensor.numel() < N * K or tensor.element_size() <= widest, (
            f"{tuple(tensor.shape)} {tensor.dtype} beside weights of {widest} bytes an element"
        )


@EACH
def test_what_loading_and_a_forward_leave_in_the_process(
    method: Method, backend: str | None
) -> None:
    built(method, backend)[1](np.ones((4, K)))
    before = all_storages()
    checkpoint, loaded = built(method, backend)
    loaded(np.ones((4, K)))
    new = {address: size for address, size in all_storages().items() if address not in before}
    assert sum(new.values()) <= allowed(checkpoint), new
    assert loaded.layer.is_ready


def test_a_copy_hidden_in_a_closure_is_found() -> None:
    _, loaded = built(*PAIRS[1])
    hidden = torch.ones(N, K)
    setattr(loaded.layer.quant_method, "multiply", lambda *_: hidden)  # noqa: B010 no such name in the base class
    assert any(t is hidden for t in tensors_within(loaded.layer))
