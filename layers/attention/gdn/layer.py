"""The core of Qwen3-Next's linear attention: convolution, gates, gated delta rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from layers.attention.base import AttentionBase
from layers.attention.gdn.checks import check_input, check_options
from layers.attention.gdn.metadata import GDNMetadata
from layers.attention.gdn.parameter import conv_layout, conv_weight, head_parameter
from layers.attention.gdn.state import GDNState
from layers.kernels.capability import Problem, select_backend, select_companion
from layers.kernels.gdn.gates import Computed, Gates, compute_gates
from layers.kernels.gdn.heads import Heads
from layers.kernels.gdn.operations import GDN_CONV, GDN_DECODE, GDN_EXTEND
from layers.linear.tensor_parallel import TensorParallel
from layers.loadable import Located
from layers.sharding import Span


@dataclass(frozen=True)
class DeltaRule:
    """The delta rule of both modes, each by its backend."""

    extend: Callable[..., torch.Tensor]
    decode: Callable[..., torch.Tensor]

    def __call__(
        self,
        mixed: torch.Tensor,
        gates: Gates,
        ssm: torch.Tensor,
        metadata: GDNMetadata,
        heads: Heads,
    ) -> torch.Tensor:
        """mixed (T, C) -> (T, Hv, Dv) of its dtype; ssm (slots, Hv, Dk, Dv) float32 is updated."""
        run = self.decode if metadata.mode == "decode" else self.extend
        return run(mixed, gates, ssm, metadata, heads)


class GatedDeltaNet(AttentionBase):
    """Causal convolution and gated delta rule over the tokens of several requests.

    The life of a layer: construct, load `conv1d.weight`, `A_log` and `dt_bias` by
    `layers.weights.load_weights`, `process_weights_after_loading`, then `forward`.

    Heads divide over the tensor parallel group: of conv1d.weight's q, k and v rows each rank takes
    the part of its heads, and inputs, state and output are of those.

    Args:
        num_k_heads: heads of queries and of keys, of all ranks.
        num_v_heads: heads of values, of all ranks; value head h uses key head h // (Hv / Hk).
        head_k_dim, head_v_dim: sizes of a head, Dk and Dv.
        conv_width: taps of the convolution, W.
        params_dtype: dtype of inputs, convolution weight and output.
        prefix: the layer's name in the model, such as "model.layers.0.linear_attn".
        backend: of the delta rule: "torch", "triton", "flashinfer"; "auto" or None chooses by
            capability. The convolution follows where it has that backend.
        device: of the parameters; None is torch's default device.
        tp_rank, tp_size: this rank's place; None takes the parallel state's.

    Attributes:
        backends: the backend chosen for each operation, once the layer is ready.
        convolve, gates, delta_rule: what forward calls. Backends whose decode kernel computes the
            gates itself do not call `gates` there.

    Raises:
        ValueError: sizes that do not divide over each other or the ranks, or an unknown option.
    """

    def __init__(
        self,
        num_k_heads: int,
        num_v_heads: int,
        head_k_dim: int,
        head_v_dim: int,
        conv_width: int = 4,
        *,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        backend: str | None = "auto",
        device: torch.device | str | None = None,
        tp_rank: int | None = None,
        tp_size: int | None = None,
    ) -> None:
        super().__init__(prefix, device)
        sizes = {
            "num_k_heads": num_k_heads,
            "num_v_heads": num_v_heads,
            "head_k_dim": head_k_dim,
            "head_v_dim": head_v_dim,
            "conv_width": conv_width,
        }
        check_options(prefix, sizes, params_dtype, backend)
        self.conv_width = conv_width
        self.params_dtype = params_dtype
        self.backend = None if backend == "auto" else backend
        parallel = TensorParallel.resolve(prefix, tp_rank, tp_size)
        k_heads = parallel.split(prefix, "num_k_heads", num_k_heads)
        self._v_heads = parallel.split(prefix, "num_v_heads", num_v_heads)
        self.heads = Heads(k_heads.size, self._v_heads.size, head_k_dim, head_v_dim)
        key, value = _rows(k_heads, head_k_dim), _rows(self._v_heads, head_v_dim)
        self.conv_layout = conv_layout(prefix, key, value, conv_width)
        self.backends: dict[str, str] = {}
        self.gates: Callable[..., Computed] = compute_gates
        self.convolve: Callable[..., torch.Tensor]
        self.delta_rule: Callable[..., torch.Tensor]
        self.begin_weight_reload()

    def locate(self, name: str) -> Located | None:
        """Where "conv1d.weight" goes, a name that no attribute can have."""
        if name != "conv1d.weight":
            return None
        return partial(self.weight_loader_v2, self.conv1d_weight)

    def new_state(self, num_slots: int) -> GDNState:
        """A state of this layer's sizes on this rank, with zeros."""
        h = self.heads
        return GDNState(
            num_slots,
            h.num_k_heads,
            h.num_v_heads,
            h.head_k_dim,
            h.head_v_dim,
            self.conv_width,
            dtype=self.params_dtype,
            device=self.device,
        )

    def forward(
        self,
        mixed_qkv: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        state: GDNState,
        metadata: GDNMetadata,
    ) -> torch.Tensor:
        """Attends, and leaves each request's state as it is after its last token.

        Args:
            mixed_qkv: (T, 2·Hk·Dk + Hv·Dv) of params_dtype: [q | k | v] before the convolution.
            a: (T, Hv) float: decay, before softplus.
            b: (T, Hv) float: write strength, before sigmoid.
            state: updated in place.
            metadata: of T tokens.

        Returns:
            (T, Hv, Dv) of params_dtype.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: arguments that do not fit the layer or each other.
        """
        check_input(self, mixed_qkv, a, b, state, metadata)
        weight = self.conv1d_weight.squeeze(1)
        mixed = self.convolve(mixed_qkv, weight, state.conv, metadata)
        gates = Gates(a, b, self.A_log, self.dt_bias, self.gates)
        return self.delta_rule(mixed, gates, state.ssm, metadata, self.heads)

    def extra_repr(self) -> str:
        """Name, sizes on this rank and backends, for `print(model)`."""
        h = self.heads
        return (
            f"'{self.prefix}', {h.num_k_heads} x {h.head_k_dim} keys, {h.num_v_heads} x "
            f"{h.head_v_dim} values, {self.backends or self.backend or 'auto'}"
        )

    def create_parameters(self) -> None:
        """Makes empty parameters: `conv1d_weight` (C, 1, W), `A_log` and `dt_bias` (Hv,)."""
        self.conv1d_weight = conv_weight(self.conv_layout, self.params_dtype, self.device)
        for name in ("A_log", "dt_bias"):
            parameter = head_parameter(self.prefix, name, self._v_heads, self.device)
            self.register_parameter(name, parameter)

    def choose_backends(self) -> None:
        """Takes a backend for each operation.

        Raises:
            BackendUnavailable: the one asked for cannot run here, or not with these sizes.
        """
        problem = Problem(self.params_dtype, self.heads.head_k_dim, self.heads.head_v_dim)
        extend, decode = (
            select_backend(operation, self.device, problem, self.backend)
            for operation in (GDN_EXTEND, GDN_DECODE)
        )
        conv = select_companion(GDN_CONV, self.device, problem, decode.name)
        self.backends = {
            GDN_CONV.name: conv.name,
            GDN_EXTEND.name: extend.name,
            GDN_DECODE.name: decode.name,
        }
        self.convolve = conv.load()
        self.delta_rule = DeltaRule(extend.load(), decode.load())


def _rows(heads: Span, size: int) -> Span:
    return Span(heads.total * size, heads.start * size, heads.size * size)
