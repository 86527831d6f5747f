"""The scales of caches of FP8 that some quantised checkpoints hold for each layer.

A key is code · k_scale, a value code · v_scale; latents of MLA are code · k_scale. Their tensors
are scalars, `self_attn.k_proj.k_scale` (NVIDIA ModelOpt) or `self_attn.k_scale`
(compressed-tensors). A checkpoint may have none, though its config speaks of such caches: they are
1 then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from layers.models.checkpoint.expected import Wanted
from layers.models.checkpoint.files import CheckpointFiles
from layers.models.decoder import CACHE_SCALES, SelfAttention
from layers.parameter import FLOAT_DTYPES

SCALAR = Wanted(((), (1,)), FLOAT_DTYPES)


# By path, such as "model.layers.0.self_attn": those of decoder layers, and those of the draft,
# which may be quantised otherwise.
Attentions = Sequence[Mapping[str, SelfAttention]]


def cache_scale_tensors(attentions: Attentions) -> dict[str, Wanted]:
    """All tensors that may be there, by name."""
    paths = [path for group in attentions for path in group]
    return {name: SCALAR for path in paths for kind in CACHE_SCALES for name in _names(path, kind)}


def incomplete_cache_scales(files: CheckpointFiles, attentions: Attentions) -> list[str]:
    """A name for each scale that is missing where other layers of a group have theirs."""
    missing = []
    for group in attentions:
        used = list(_used(group))
        absent = [pair for pair in used if _stored(files, *pair) is None]
        if len(absent) < len(used):
            missing += [_names(*pair)[0] for pair in absent]
    return missing


def load_cache_scales(files: CheckpointFiles, attentions: Attentions) -> list[str]:
    """Gives each attention its scales; returns a sentence for each that cannot be used."""
    places = {}
    for group in attentions:
        for path, kind in _used(group):
            name = _stored(files, path, kind)
            if name is not None:
                places[name] = (group[path], kind)
    problems = []
    for name, tensor in files.load(places):
        attention, kind = places[name]
        scale = float(tensor)
        if not 0 < scale < float("inf"):
            problems.append(f"'{name}' is {scale:g}, wanted a finite scale above 0")
        attention.cache_scales[kind] = scale
    return problems


def _names(path: str, kind: str) -> tuple[str, str]:
    return f"{path}.{kind[0]}_proj.{kind}", f"{path}.{kind}"


def _used(group: Mapping[str, SelfAttention]) -> Iterator[tuple[str, str]]:
    for path, attention in group.items():
        for kind in attention.cache_scales:
            yield path, kind


def _stored(files: CheckpointFiles, path: str, kind: str) -> str | None:
    return next((name for name in _names(path, kind) if name in files.tensors), None)
