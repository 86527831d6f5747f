"""Layers whose parameters are each one checkpoint tensor: loading, and their two states."""

from __future__ import annotations

from abc import abstractmethod

import torch

from layers.errors import WeightLoadError
from layers.loadable import LoadableLayer
from layers.parameter import ShardedParameter
from layers.sharding import ShardId

_REPLACED = (
    "if it was replaced since the layer was built, by an assignment or by to_empty() on a meta "
    "layer, build the layer on its device or call layers.weights.begin_weight_reload(), and load "
    "it again"
)


class TensorLayer(LoadableLayer):
    """A layer whose own parameters, if any, come from checkpoint tensors.

    A layer defines `create_parameters`, called by its constructor's last line `begin_weight_reload`
    and at each reload, and `choose_backends`, called once everything was loaded.

    Args:
        prefix: the layer's name in the model.
        device: of the parameters, and where the layer runs; None is torch's default device.
    """

    def __init__(self, prefix: str, device: torch.device | str | None) -> None:
        super().__init__()
        self.prefix = prefix
        self.device = torch.empty(0, device=device).device
        self._ready = False
        self._loadable_names: list[str] = []

    @abstractmethod
    def create_parameters(self) -> None:
        """Registers a `ShardedParameter` for each tensor that the checkpoint holds."""

    @abstractmethod
    def choose_backends(self) -> None:
        """Chooses the kernels for `device` and brings what was loaded into their layout.

        Raises:
            BackendUnavailable: the backend asked for cannot run here.
        """

    @property
    def is_ready(self) -> bool:
        """Whether `process_weights_after_loading` has run."""
        return self._ready

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """(None,) where no tensor is fused of several."""
        return (None,)

    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Loads one checkpoint tensor: the only way for a weight into the layer.

        Args:
            param: one of this layer's parameters.
            loaded_weight: the full tensor; this rank's part is taken here.
            shard_id: which of `shard_ids` it is; None for a whole one.

        Raises:
            WeightLoadError: see `ShardedParameter.load`; or the layer is ready already.
        """
        if self._ready:
            raise WeightLoadError(
                f"layer '{self.prefix}' is ready for forward and takes no more weights. Call "
                f"layers.weights.begin_weight_reload() before loading others."
            )
        if not isinstance(param, ShardedParameter) or all(
            param is not self._parameters.get(name) for name in self._loadable_names
        ):
            raise WeightLoadError(
                f"layer '{self.prefix}': the parameter given is none of those that the layer was "
                f"built with, {', '.join(self._loadable_names) or 'none'}. Pass one of them; or, "
                f"{_REPLACED}."
            )
        param.load(loaded_weight, shard_id)

    def missing_weights(self) -> list[str]:
        """Parameters still to be loaded, by full name; a parameter that was replaced among them."""
        missing: list[str] = []
        for name in self._loadable_names:
            param = self._parameters.get(name)
            if isinstance(param, ShardedParameter):
                missing += [param.label(shard_id) for shard_id in param.missing_shards]
                continue
            full_name = f"{self.prefix}.{name}" if self.prefix else name
            missing.append(f"'{full_name}' (lost: {_REPLACED})")
        return missing

    def process_weights_after_loading(self) -> None:
        """Checks that everything was loaded and chooses the backends; does nothing if ready.

        Raises:
            WeightLoadError: naming each parameter never loaded, or one that was converted after it
                was built.
            BackendUnavailable: the backend asked for cannot run here.
        """
        if self._ready:
            return
        missing = self.missing_weights()
        if missing:
            raise WeightLoadError(
                f"layer '{self.prefix}' lacks {', '.join(missing)}: no checkpoint tensor was "
                f"loaded there. Check that the checkpoint is whole."
            )
        for name in self._loadable_names:
            param = self.get_parameter(name)
            assert isinstance(param, ShardedParameter)
            param.check_own()
            self.device = param.device
        self.choose_backends()
        self._ready = True

    def begin_weight_reload(self) -> None:
        """Drops the parameters and makes new ones in new memory, as the constructor does.

        CUDA graphs captured before must be captured again.
        """
        self._ready = False
        for name, _ in list(self.named_parameters(recurse=False)):
            self.register_parameter(name, None)
        self.create_parameters()
        self._loadable_names = [name for name, _ in self.named_parameters(recurse=False)]

    def check_ready(self) -> None:
        """Refuses a forward before its time.

        Raises:
            RuntimeError: weights not loaded and processed.
        """
        if not self._ready:
            raise RuntimeError(
                f"layer '{self.prefix}' is not ready for forward: load its weights, then call "
                f"layers.weights.process_weights_after_loading()."
            )
