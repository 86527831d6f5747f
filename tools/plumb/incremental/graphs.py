"""Target graphs in the cache: whole ones, and those that differ from one in a few packages.

Any number of runs may share the folder: a file is written beside and renamed, and its name says
what the graph in it was read from.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.plumb import cache
from tools.plumb.graph import Graph
from tools.plumb.incremental import layered
from tools.plumb.incremental.manifest import Manifest
from tools.plumb.stream import store

# Of all graphs of one workspace, in bytes.
_KEPT = 1 << 29
# Of a graph's layers, before they are made one.
_LAYERS = 8
_WHOLE, _PART = ".graph", ".part"


@dataclass(frozen=True)
class Layer:
    """Some packages as they were read anew, with attributes that nobody gave a value.

    packages: such as //a/b. graph: of these alone.
    """

    packages: tuple[str, ...]
    graph: Graph


@dataclass(frozen=True)
class Known:
    """A graph, and what it was read from. root: the key of what it shares with others.

    defaults: what it shares has attributes that nobody gave a value.
    """

    graph: Graph
    manifest: Manifest
    root: str
    defaults: bool
    layers: tuple[Layer, ...] = ()

    def has_defaults(self, package: str) -> bool:
        """True if every attribute of the package's rules is here."""
        return self.defaults or package in layered.split(self.graph.index)[1]

    def over(self, read: Graph, packages: tuple[str, ...], manifest: Manifest) -> Known:
        """This graph with `packages` as `read` has them."""
        made = layered.over(self.graph, read, packages)
        return replace(
            self,
            graph=made,
            manifest=manifest,
            layers=(*self.layers, Layer(packages, read)),
        )


@dataclass(frozen=True)
class Graphs:
    """The graphs in `folder`, each under its key."""

    folder: Path
    _loaded: dict[str, Known] = field(default_factory=dict, repr=False, compare=False)

    def find(self, key: str) -> Known | None:
        """The graph with that key; None if it is not here, or damaged."""
        if key not in self._loaded:
            found = self._part(key) or self._whole(key)
            if found is None:
                return None
            self._loaded[key] = found
        return self._loaded[key]

    def latest(self) -> Known | None:
        """The whole graph that was used last."""
        paths = [path for path in self._files() if path.suffix == _WHOLE]
        times = [(status.st_mtime, path) for path in paths if (status := _status(path))]
        return self._whole(max(times)[1].stem) if times else None

    def keep(self, key: str, known: Known) -> None:
        """Writes the graph, and makes room for it."""
        self._loaded[key] = known
        about: dict[str, Any] = {"manifest": known.manifest.fields(), "defaults": known.defaults}
        if known.layers:
            self._write(key, _PART, _dump_layers(known, about))
        else:
            self._loaded[f"{key}{_WHOLE}"] = known
            self._write(key, _WHOLE, store.dump(known.graph, about))
            (self.folder / f"{key}{_PART}").unlink(missing_ok=True)
        cache.keep_within(self.folder, _KEPT)

    def _write(self, key: str, suffix: str, content: bytes) -> None:
        cache.write_atomically(self.folder / f"{key}{suffix}", content)

    def _files(self) -> list[Path]:
        with suppress(OSError):
            return list(self.folder.iterdir())
        return []

    def _whole(self, key: str) -> Known | None:
        # Two graphs over one root share it: then it shows what they have in common.
        name = f"{key}{_WHOLE}"
        if name not in self._loaded:
            try:
                graph, about = store.load(_read(self.folder / name))
                manifest = Manifest(**about["manifest"])
            except (OSError, ValueError, TypeError, KeyError):
                return None
            self._loaded[name] = Known(graph, manifest, key, about["defaults"])
        return self._loaded[name]

    def _part(self, key: str) -> Known | None:
        try:
            pieces = store.split(_read(self.folder / f"{key}{_PART}"))
            about = json.loads(pieces[0])
            known = self._whole(about["root"])
            if known is None:
                return None
            for names, piece in zip(about["layers"], pieces[1:], strict=True):
                packages = tuple(names)
                known = known.over(_layer(piece, known.graph), packages, known.manifest)
            return replace(known, manifest=Manifest(**about["manifest"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _layer(piece: bytes, under: Graph) -> Graph:
    # Packages that are all gone leave no targets, which are no graph by themselves.
    return store.load(piece)[0] if piece else Graph({}, under.release)


def _dump_layers(known: Known, about: dict[str, Any]) -> bytes:
    layers = known.layers
    if len(layers) > _LAYERS:
        packages = layered.split(known.graph.index)[1]
        targets = {label: t for part in packages.values() for label, t in part.items()}
        loads = {n: labels for n, labels in known.graph.loads.items() if n in packages}
        layers = (Layer(tuple(packages), Graph(targets, known.graph.release, loads)),)
    about |= {"root": known.root, "layers": [layer.packages for layer in layers]}
    dumped = [store.dump(one.graph, {}) if one.graph.targets else b"" for one in layers]
    return store.join([json.dumps(about).encode(), *dumped])


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    with suppress(OSError):
        os.utime(path)
    return content


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
