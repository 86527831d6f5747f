"""How a gated delta layer takes checkpoint tensors: the two states of a loadable layer."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import torch

from layers.errors import WeightLoadError
from layers.loadable import LoadableLayer, Located
from layers.parameter import ShardedParameter
from layers.sharding import ShardId

# Checkpoint names that hold a dot, which no attribute's name can.
DOTTED = {"conv1d.weight": "conv1d_weight"}


class CheckpointLayer(LoadableLayer):
    """Parameters that are filled from a checkpoint, then read by kernels."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = False

    @abstractmethod
    def create_parameters(self) -> None:
        """Registers empty parameters."""

    @abstractmethod
    def choose_kernels(self) -> None:
        """Takes a backend for each operation, once everything is loaded."""

    @property
    def is_ready(self) -> bool:
        """Whether `process_weights_after_loading` has run."""
        return self._ready

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """No name of a checkpoint's module stands for a part of the layer."""
        return (None,)

    def locate(self, name: str) -> Located | None:
        """Where a checkpoint tensor goes whose name within the layer holds a dot."""
        attribute = DOTTED.get(name)
        if attribute is None:
            return None
        return partial(self.weight_loader_v2, self.get_parameter(attribute))

    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Loads one checkpoint tensor: the only way for a weight into the layer.

        Args:
            param: one of this layer's parameters.
            loaded_weight: the full tensor; this rank's part is taken here.
            shard_id: "q", "k" or "v" for a part of conv1d.weight; None for all of a tensor.

        Raises:
            WeightLoadError: see `ShardedParameter.load`; or the layer is ready already.
        """
        if self._ready:
            raise WeightLoadError(
                f"layer '{self.prefix}' is ready for forward and takes no more weights. Call "
                f"layers.weights.begin_weight_reload() before loading others."
            )
        known = dict(self.named_parameters(recurse=False))
        if not isinstance(param, ShardedParameter) or all(param is not p for p in known.values()):
            raise WeightLoadError(
                f"layer '{self.prefix}': the parameter given is none of those that the layer was "
                f"built with, {', '.join(known)}. Pass one of them; or, if it was replaced since, "
                f"call layers.weights.begin_weight_reload() and load it again."
            )
        param.load(loaded_weight, shard_id)

    def missing_weights(self) -> list[str]:
        """Parameters, and shards of them, still to be loaded, by full name.

        A parameter that was replaced since the layer was built is among them.
        """
        missing: list[str] = []
        for name, param in self.named_parameters(recurse=False):
            if isinstance(param, ShardedParameter):
                missing += [param.label(shard_id) for shard_id in param.missing_shards]
                continue
            missing.append(
                f"'{self.prefix}.{name}' (replaced since the layer was built: call "
                f"layers.weights.begin_weight_reload() and load it again)"
            )
        return missing

    def process_weights_after_loading(self) -> None:
        """Checks that everything was loaded and chooses kernels; does nothing if ready.

        Raises:
            WeightLoadError: naming what was never loaded, or a parameter that was converted after
                it was built.
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
        for param in self.parameters(recurse=False):
            if isinstance(param, ShardedParameter):
                param.check_own()
        self.device = next(self.parameters()).device
        self.choose_kernels()
        self._ready = True

    def begin_weight_reload(self) -> None:
        """Drops the parameters and makes new ones in new memory, as the constructor does.

        CUDA graphs captured before must be captured again.
        """
        self._ready = False
        for name, _ in list(self.named_parameters(recurse=False)):
            self.register_parameter(name, None)
        self.create_parameters()
