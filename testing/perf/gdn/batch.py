"""A gated delta layer of Qwen3-Next's sizes, and random batches of requests for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from layers.attention.gdn.layer import GatedDeltaNet
from layers.attention.gdn.metadata import GDNMetadata
from layers.attention.gdn.state import GDNState
from layers.kernels.gdn.gates import Gates
from layers.weights import load_weights, process_weights_after_loading

DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Sizes:
    """Of a layer."""

    k_heads: int
    v_heads: int
    head_dim: int
    width: int = 4


@dataclass(frozen=True)
class Batch:
    """What a layer's forward takes; every request brings a state.

    mode: "decode", or "extend" of `tokens` tokens a request.
    mixed: (T, C) before the convolution. gates: of the layer's parameters.
    """

    mode: str
    requests: int
    tokens: int
    mixed: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    state: GDNState
    metadata: GDNMetadata
    gates: Gates

    @property
    def conv_bytes(self) -> int:
        """Of the inputs and outputs of the convolution; those of its states are left out."""
        size: int = 2 * self.mixed.nbytes
        return size

    @property
    def state_bytes(self) -> int:
        """Of the recurrent states, which decode reads and writes once."""
        size: int = 2 * self.requests * self.state.ssm[0].nbytes
        return size


def ready_layer(sizes: Sizes, backend: str, device: torch.device) -> GatedDeltaNet:
    """A layer with random weights, that is ready.

    Raises:
        BackendUnavailable: the backend cannot run there.
    """
    layer = GatedDeltaNet(
        *(sizes.k_heads, sizes.v_heads, sizes.head_dim, sizes.head_dim, sizes.width),
        params_dtype=DTYPE,
        prefix="linear_attn",
        backend=backend,
        device=device,
    )
    rows = layer.heads.conv_size
    weights = {
        "conv1d.weight": torch.randn(rows, 1, sizes.width, dtype=DTYPE) / sizes.width,
        "A_log": torch.rand(sizes.v_heads) * 2,
        "dt_bias": torch.randn(sizes.v_heads),
    }
    load_weights(layer, weights)
    process_weights_after_loading(layer)
    return layer


def random_batch(layer: GatedDeltaNet, mode: str, requests: int, tokens: int) -> Batch:
    """Requests of as many tokens each, whose slots lie in a random order."""
    device = layer.device
    state = layer.new_state(requests)
    state.conv.normal_()
    state.ssm.normal_(std=0.3)
    slots = torch.randperm(requests).tolist()
    if mode == "decode":
        metadata = GDNMetadata.decode(slots, device)
    else:
        metadata = GDNMetadata.extend([tokens] * requests, slots, [True] * requests, device)
    rows, heads = layer.heads.conv_size, layer.heads.num_v_heads
    mixed, a, b = (
        torch.randn(requests * tokens, width, dtype=DTYPE, device=device)
        for width in (rows, heads, heads)
    )
    gates = Gates(a, b, layer.A_log, layer.dt_bias, layer.gates)
    return Batch(mode, requests, tokens, mixed, a, b, state, metadata, gates)
