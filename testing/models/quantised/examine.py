"""A quantised checkpoint through its folder, beside the reference with the values of its codes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch

from layers.models.causal_lm import CausalLM
from layers.models.load import load_model
from testing.harness.device import device
from testing.models.batch import Seen, previous, run, run_draft, steps, without_last
from testing.models.examine import Examination
from testing.models.folders import random_tensors, reference_of, write_folder
from testing.models.judge import problems_of
from testing.models.quantised.formats import FORMATS, Format, quantiser
from testing.models.truth import Arithmetic, Truth, truth_for, truth_of, values_of
from testing.oracles.arrays import Tensors
from testing.oracles.models.build import build
from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.deepseek import DeepseekV3, LatentAttention
from testing.oracles.models.parts import Linear


class _Spread(Examination):
    """A checkpoint whose rows and blocks differ in size, so that their scales do."""

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The checkpoint's."""
        made = random_tensors(self.config, self.seed)
        layers = linears_of(build(self.config))
        return {
            name: spread(tensor, index) if name.removesuffix(".weight") in layers else tensor
            for index, (name, tensor) in enumerate(made.items())
        }


def spread(weight: torch.Tensor, seed: int) -> torch.Tensor:
    """weight (N, K) times powers of two between 1/4 and 4, a row, 16 columns and 128 x 128."""
    rng = np.random.default_rng(seed)
    rows, columns = weight.shape
    by_row = rng.integers(-1, 2, (rows, 1))
    by_block = rng.integers(-1, 2, (1, -(-columns // 16))).repeat(16, 1)[:, :columns]
    # In turn, so that neighbours never are the same.
    large = np.arange(-(-rows // 128))[:, None] + np.arange(-(-columns // 128))
    by_tile = (large % 3 - 1).repeat(128, 0).repeat(128, 1)[:rows, :columns]
    exponents = torch.from_numpy((by_row + by_block + by_tile).clip(-2, 2))
    return torch.ldexp(weight.double(), exponents).to(weight.dtype)


def linears_of(reference: torch.nn.Module) -> set[str]:
    """Names of the layers that a format of the model applies to."""
    modules = reference.named_modules()
    return {name for name, m in modules if isinstance(m, Linear) and m.quantised}


@dataclass
class Quantised:
    """A checkpoint of a format.

    config: of config.json, without its quantization_config.
    name: of the format.
    """

    config: Mapping[str, Any]
    name: str

    @cached_property
    def floats(self) -> Examination:
        """The checkpoint that is quantised."""
        return _Spread(self.config)

    @property
    def suffixes(self) -> list[str]:
        """Of a layer's tensors, those that have a say in the weight."""
        parts = next(iter(self.stored.values()))
        return [suffix for suffix in parts if suffix != "input_scale"]

    @property
    def format(self) -> Format:
        """What the name stands for."""
        return FORMATS[self.name]

    @cached_property
    def stored(self) -> dict[str, Tensors]:
        """Of each quantised layer the tensors by suffix."""
        weights = self.floats.tensors
        return {
            layer: self.format.encode(weights[f"{layer}.weight"].double().numpy(), amax)
            for layer, amax in self._largest_inputs().items()
        }

    @property
    def checkpoint(self) -> dict[str, torch.Tensor]:
        """All tensors by name."""
        tensors = {n: t for n, t in self.floats.tensors.items() if self._layer(n) is None}
        for layer, parts in self.stored.items():
            tensors |= {f"{layer}.{suffix}": as_torch(part) for suffix, part in parts.items()}
        return tensors

    @property
    def whole_config(self) -> dict[str, Any]:
        """Of config.json."""
        return {**self.config, "quantization_config": self.format.config}

    def write(self, folder: Path) -> Path:
        """The checkpoint as a folder, which it returns."""
        return write_folder(folder, self.whole_config, self.checkpoint, shards=2)

    @cached_property
    def model(self) -> CausalLM:
        """Through a folder, on this pool's device."""
        with tempfile.TemporaryDirectory() as folder:
            return load_model(self.write(Path(folder)), device=device())

    @cached_property
    def seen(self) -> Seen:
        """The batch in chunks and steps."""
        return run(self.model, self.floats.ids, steps())

    @cached_property
    def truth(self) -> Truth:
        """For `seen`."""
        return truth_for(self.reference, self.floats.ids, self.seen, self.arithmetic)

    @cached_property
    def reference(self) -> ReferenceModel:
        """In float64, with the values of the codes."""
        return self._reference(self.stored)

    @cached_property
    def seen_draft(self) -> Seen:
        """What the draft module makes of `seen` in chunks and steps."""
        return self.draft(self.model)

    def draft(self, model: CausalLM) -> Seen:
        """What a model's draft module makes of `seen`."""
        return run_draft(model, self.floats.ids, previous(self.seen), without_last(steps()))

    def problems_of_draft(
        self, seen: Seen, moved_suffix: str | None = None, kinds: tuple[str, ...] = ()
    ) -> list[str]:
        """Of drafts, were such tensors of the draft's layers out of place; see `moved`."""
        prefix = f"model.layers.{self.config['num_hidden_layers']}."
        altered = {
            layer: {**parts, moved_suffix: moved(parts[moved_suffix])}
            if moved_suffix and layer.startswith(prefix) and layer.endswith(kinds)
            else parts
            for layer, parts in self.stored.items()
        }
        reference = self._reference(altered)
        arithmetic = replace(self.arithmetic, quantise=quantiser(self.format.linear, altered))
        given = [part.double() for part in previous(self.seen)]
        values = values_of(reference, self.floats.ids, seen.experts, arithmetic, draft_of=given)
        truth = self.truth_of_draft(seen).of(values)
        return problems_of(seen, truth, reference, of_draft=True)

    def truth_of_draft(self, seen: Seen) -> Truth:
        """For drafts made of `seen`, by the experts that they chose."""
        key = tuple(tuple(chosen.flatten().tolist()) for chosen in seen.experts)
        if key not in self._truths:
            given = [part.double() for part in previous(self.seen)]
            arguments = (self.reference, self.floats.ids, seen.experts, self.arithmetic, given)
            self._truths[key] = truth_of(*arguments)
        return self._truths[key]

    @cached_property
    def _truths(self) -> dict[object, Truth]:
        return {}

    def problems(self) -> list[str]:
        """Of the batch."""
        return problems_of(self.seen, self.truth, self.reference)

    def problems_if_moved(self, suffix: str, kinds: tuple[str, ...]) -> list[str]:
        """Of the batch, were these tensors of all layers of some kinds out of place; see `moved`.

        kinds: how the layers' names end; ("",) is all of them.
        """
        altered = {
            layer: {**parts, suffix: moved(parts[suffix])} if layer.endswith(kinds) else parts
            for layer, parts in self.stored.items()
        }
        reference = self._reference(altered)
        arithmetic = replace(self.arithmetic, quantise=quantiser(self.format.linear, altered))
        values = values_of(reference, self.floats.ids, self.seen.experts, arithmetic)
        return problems_of(self.seen, self.truth.of(values), reference)

    @property
    def arithmetic(self) -> Arithmetic:
        """Of the format, on this pool."""
        plain = self.floats.arithmetic(in_chunks=True)
        return replace(plain, quantise=quantiser(self.format.linear, self.stored))

    def _reference(self, stored: Mapping[str, Tensors]) -> ReferenceModel:
        values = {
            f"{layer}.weight": torch.from_numpy(self.format.linear.decode(parts))
            for layer, parts in stored.items()
        }
        reference = reference_of(self.config, {**self.floats.tensors, **values})
        for module in reference.modules():
            if isinstance(module, LatentAttention):
                weight = module.kv_b_proj.weight
                module.absorbed_weight = weight.bfloat16().double()
        return reference

    def _layer(self, name: str) -> str | None:
        """The quantised layer that a weight is of, or None."""
        layer = name.removesuffix(".weight")
        return layer if layer != name and layer in self._layers else None

    @cached_property
    def _layers(self) -> set[str]:
        return linears_of(self.floats.reference)

    def _largest_inputs(self) -> dict[str, float]:
        """Of each quantised layer, as a calibration would find; 1 where none came."""
        found = dict.fromkeys(sorted(self._layers), 1.0)
        hooks = []
        for name, module in self.floats.reference.named_modules():
            if name in self._layers:

                def keep(_m: object, inputs: tuple[torch.Tensor], name: str = name) -> None:
                    if inputs[0].numel():
                        found[name] = float(inputs[0].abs().max())

                hooks.append(module.register_forward_pre_hook(keep))
        ids = torch.cat(self.floats.ids)[None]
        hidden = self.floats.reference.hidden(ids)
        if isinstance(self.floats.reference, DeepseekV3):
            self.floats.reference.draft_hidden(ids[:, 1:], hidden[:, :-1])
        for hook in hooks:
            hook.remove()
        return found


def as_torch(array: Any) -> torch.Tensor:
    """With its dtype; e4m3 of ml_dtypes becomes torch's."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    if array.dtype == ml_dtypes.float8_e4m3fn:
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array)


def moved(tensor: Any) -> Any:
    """Rows, or scales, one further on; a single scale a quarter of what it is."""
    tensor = np.asarray(tensor)
    if tensor.size == 1:
        return (tensor.astype(np.float32) * np.float32(0.25)).astype(tensor.dtype)
    return np.roll(tensor, 1, axis=0 if tensor.shape[0] > 1 else 1)
