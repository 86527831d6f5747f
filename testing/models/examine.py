"""A random checkpoint of an architecture, its layer model, and what both make of a batch."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from layers.models.causal_lm import CausalLM
from layers.models.load import load_model
from testing.harness.device import device, pool
from testing.models.batch import WHOLE, Seen, run, steps, token_ids
from testing.models.folders import random_tensors, reference_of, write_folder
from testing.models.judge import problems_of
from testing.models.truth import Arithmetic, Truth, truth_for, values_of
from testing.oracles.models.decoder import ReferenceModel


@dataclass
class Examination:
    """One checkpoint's.

    config: of config.json.
    seed: of weights and tokens.
    dtype: of what the model stores.
    has_codes: its caches hold e4m3 codes.
    """

    config: Mapping[str, Any]
    seed: int = 0
    dtype: torch.dtype = torch.bfloat16
    has_codes: bool = False

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The checkpoint's."""
        return random_tensors(self.config, self.seed)

    @cached_property
    def reference(self) -> ReferenceModel:
        """In float64."""
        return reference_of(self.config, self.tensors)

    @cached_property
    def ids(self) -> list[torch.Tensor]:
        """Of each request."""
        return token_ids(self.config["vocab_size"], self.seed)

    @cached_property
    def model(self) -> CausalLM:
        """Loaded from a folder of two shards, on this pool's device."""
        return self.load()

    @cached_property
    def seen(self) -> Seen:
        """The batch in chunks and steps."""
        codes = torch.float8_e4m3fn if self.has_codes else None
        return run(self.model, self.ids, steps(), codes)

    @cached_property
    def seen_whole(self) -> Seen:
        """All of the batch as prompts at once."""
        return run(self.model, self.ids, WHOLE)

    @cached_property
    def truth(self) -> Truth:
        """For `seen`."""
        return truth_for(self.reference, self.ids, self.seen, self.arithmetic(in_chunks=True))

    @cached_property
    def truth_whole(self) -> Truth:
        """For `seen_whole`."""
        arithmetic = self.arithmetic(in_chunks=False)
        return truth_for(self.reference, self.ids, self.seen_whole, arithmetic)

    def problems(self) -> list[str]:
        """Of the batch in chunks and steps."""
        return problems_of(self.seen, self.truth, self.reference)

    def problems_whole(self) -> list[str]:
        """Of the batch as prompts at once."""
        return problems_of(self.seen_whole, self.truth_whole, self.reference)

    def problems_if(
        self,
        tensors: Mapping[str, torch.Tensor] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Of the batch, were other tensors or settings right."""
        altered = reference_of(
            {**self.config, **(config or {})}, {**self.tensors, **(tensors or {})}
        )
        values = values_of(altered, self.ids, self.seen.experts, self.arithmetic(in_chunks=True))
        return problems_of(self.seen, self.truth.of(values), altered)

    def problems_of_run(self, seen: Seen) -> list[str]:
        """Of a batch in chunks and steps that something was done to."""
        truth = truth_for(self.reference, self.ids, seen, self.arithmetic(in_chunks=True))
        return problems_of(seen, truth, self.reference)

    def write(self, folder: Path) -> Path:
        """The checkpoint as a folder, which it returns."""
        return write_folder(folder, self.config, self.tensors, shards=2)

    def load(self, **options: Any) -> CausalLM:
        """A model through a folder."""
        with tempfile.TemporaryDirectory() as folder:
            given = {"device": device(), "params_dtype": self.dtype, **options}
            return load_model(self.write(Path(folder)), **given)

    def arithmetic(self, *, in_chunks: bool) -> Arithmetic:
        """This pool's."""
        return Arithmetic(
            dtype=self.dtype,
            in_kernels=pool() != "cpu",
            in_chunks=in_chunks,
            has_codes=self.has_codes,
        )


def layer_names(tensors: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Names of the main model's tensors, the draft's left out."""
    draft = f"model.layers.{config['num_hidden_layers']}."
    return [name for name in tensors if not name.startswith(draft)]
