"""What the attention layers share: loading, and the two states of a layer."""

from __future__ import annotations

from layers.tensor_layer import TensorLayer


class AttentionBase(TensorLayer):
    """An attention layer; `choose_backends` makes what its kernels want of what was loaded."""
