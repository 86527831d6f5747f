"""Loads a revision: its files, what steers Bazel, and its target graph, from the cache if known.

A graph depends on the names of all files, and on the content of those that Bazel loads. So an
edit of a source file alone needs no Bazel at all.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from tools.plumb import bazel, cache, graph, pools
from tools.plumb.graph import Graph, Target
from tools.plumb.head_start import HeadStart, write_steering
from tools.plumb.incremental import layered, manifest
from tools.plumb.incremental.graphs import Graphs, Known
from tools.plumb.incremental.loads import Loads
from tools.plumb.incremental.manifest import Manifest
from tools.plumb.steering import inputs
from tools.plumb.trees.files import FileTable
from tools.plumb.trees.git import Repository, Tree

# Part of every cached graph's name: raise it when what is kept of a graph changes.
GRAPH_FORMAT = 6
# So many packages are read anew rather than all of them, and a quarter of all that there are.
_FEW = 50


@dataclass(frozen=True)
class Revision:
    """One side of the comparison."""

    tree: Tree
    files: FileTable
    steering: inputs.SteeringInputs
    known: Known
    key: str

    @property
    def graph(self) -> Graph:
        """Its target graph."""
        return self.known.graph

    @cached_property
    def pool_rules(self) -> tuple[pools.PoolRule, ...]:
        """What the tree's own mapping file says of pools; empty if it has none."""
        return pools.parse(self.files.text(pools.MAPPING_PATH) or "")

    def placement(self, test: Target) -> pools.Placement:
        """Where `test` runs and what it takes."""
        return pools.placement(test, self.pool_rules)

    def placement_of(self, label: str) -> pools.Placement:
        """Where the test `label` runs and what it takes."""
        return self._placements.get(label) or self.placement(self.graph.targets[label])

    @cached_property
    def _placements(self) -> dict[str, pools.Placement]:
        index = self.graph.index
        found: dict[str, pools.Placement] = {}
        # Tests that say the same share one table, which stands beside its number: that could else
        # come to mean another one.
        known: dict[int, tuple[object, pools.Placement]] = {}
        tests = self.graph.test_labels
        for label, said in zip(tests, index.said_of(tests), strict=True):
            if id(said) not in known:
                known[id(said)] = said, self.placement(self.graph.targets[label])
            found[label] = known[id(said)][1]
        return found


@dataclass(frozen=True)
class _Read:
    """What was read of a tree without Bazel. key: of its target graph."""

    files: FileTable
    steering: inputs.SteeringInputs
    manifest: Manifest

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(f"{GRAPH_FORMAT}\0{self.manifest.digest()}".encode()).hexdigest()


@dataclass(frozen=True)
class Loader:
    """Loads revisions of one workspace, one after the other.

    workspace: the user's folder, only read. folder: this workspace's cache folder.
    many: the number of packages from which on attributes that nobody gave a value are read only
    where they may differ.
    """

    repository: Repository
    workspace: Path
    folder: Path
    notify: cache.Notify
    many: int = 400
    _known_files: dict[object, _Read] = field(default_factory=dict, repr=False, compare=False)
    _head_start: HeadStart = field(default_factory=HeadStart, repr=False, compare=False)
    # Trees of which the checkout holds what steers Bazel, and not yet the rest.
    _begun: set[str] = field(default_factory=set, repr=False, compare=False)

    @cached_property
    def graphs(self) -> Graphs:
        """The graphs that are cached."""
        return Graphs(self.folder / "graphs")

    def load(
        self,
        tree: Tree,
        *,
        fresh: bool = False,
        defaults: bool = True,
        near: Revision | None = None,
    ) -> Revision:
        """The revision of `tree`; with fresh, its graph is read anew.

        defaults: with attributes that nobody gave a value. near: a revision that may differ from
        it in few packages; then only these have such attributes if `near` has none.
        Raises bazel.GraphError if Bazel cannot load it.
        """
        read = self._read_files(tree)
        known = None if fresh else self._known(read, defaults, near)
        if known is not None and loaded_outside(read.files, read.steering, known.graph):
            # It is known by what Bazel loads, which nobody can compare here.
            known, fresh = None, True
        if known is None:
            self.notify(f"{tree.name} needs Bazel once: its graph is not in the cache")
            with cache.locked(self.folder / "lock", self.notify, "reads a target graph"):
                known = None if fresh else self._known(read, defaults, near)
                known = known or self._from_bazel(tree, read, fresh, defaults, near)
                self.graphs.keep(read.key, known)
        return Revision(tree, read.files, read.steering, known, read.key)

    @contextmanager
    def reading_ahead(self, tree: Tree) -> Iterator[None]:
        """Reads what is known of `tree` beside what is done within, for `load` to find.

        Where nothing is, a Bazel server is started, which `load` will need. What goes wrong there
        is left to `load`, which then meets it and says so.
        """

        def read() -> None:
            # An interrupt is the main thread's to tell of; here it would be a traceback.
            with suppress(Exception, KeyboardInterrupt):
                found = self._read_files(tree)
                if self.graphs.find(found.key) is None and inputs.is_workspace(found.files):
                    self._begin(tree, found)

        # No thread to wait for where the user interrupts.
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield
        thread.join()

    def _begin(self, tree: Tree, read: _Read) -> None:
        """Has the server start that reads graphs, unless another plumb is at work."""
        checkout, mark = self._checkout, self.folder / "unfinished"
        lock = FileLock(self.folder / "lock")
        with suppress(Timeout), lock.acquire(timeout=0):
            if mark.exists():
                return
            if not checkout.exists():
                mark.touch()
                self._begun.add(tree.id)
                write_steering(read.files, read.steering, checkout)
            self._head_start.begin(self._own_bazel(), checkout)

    @property
    def _checkout(self) -> Path:
        return self.folder / "tree"

    def _own_bazel(self) -> bazel.Bazel:
        entry = bazel.find_entry(self._checkout, self.workspace)
        return bazel.Bazel(entry, self.folder / "output_base", short_run=True)

    def with_defaults(self, revision: Revision, packages: Collection[str]) -> Revision:
        """The revision with attributes that nobody gave a value in those of `packages` it has."""
        known = revision.known
        there = (p for p in packages if p in known.graph.loads)
        missing = tuple(sorted(p for p in there if not known.has_defaults(p)))
        if not missing:
            return revision
        with cache.locked(self.folder / "lock", self.notify, "reads a target graph"):
            read = self._query(revision.tree, defaults=True, packages=missing)
            known = known.over(read, missing, known.manifest)
            self.graphs.keep(revision.key, known)
        return replace(revision, known=known)

    def apart(self, older: Revision, head: Tree) -> set[str] | None:
        """Packages that differ between the two; None if they are too many, or nobody can say."""
        return _few(older.known, self._read_files(head).manifest)

    def files(self, tree: Tree) -> FileTable:
        """The files of the tree."""
        return self._read_files(tree).files

    def _read_files(self, tree: Tree) -> _Read:
        name = tree.name, tree.id, tuple((path, part.id) for path, part in tree.parts.items())
        if name not in self._known_files:
            files = self.repository.files(tree)
            steering = inputs.read(files)
            found = _Read(files, steering, manifest.of_tree(files, steering))
            self._known_files[name] = found
        return self._known_files[name]

    def _known(self, read: _Read, defaults: bool, near: Revision | None) -> Known | None:
        if near is not None and near.key == read.key:
            return near.known
        found = self.graphs.find(read.key)
        if found is None or (defaults and not found.defaults and near is None):
            return None
        if near is None or near.known.root == found.root:
            return found
        # Two graphs that share nothing can be compared whole, if they are small.
        whole = found.defaults and near.known.defaults
        return found if whole and len(read.manifest.packages) < self.many else None

    def _from_bazel(
        self, tree: Tree, read: _Read, fresh: bool, defaults: bool, near: Revision | None
    ) -> Known:
        like = near.known if near is not None else self.graphs.latest()
        if like is not None and not fresh and not (defaults and near is None and not like.defaults):
            packages = _few(like, read.manifest)
            if packages is not None and not loaded_outside(read.files, read.steering, like.graph):
                found = self._in_part(tree, read, like, packages)
                if found is not None:
                    return found
        defaults = defaults or len(read.manifest.packages) < self.many
        found = Known(self._query(tree, defaults=defaults), read.manifest, read.key, defaults)
        # Where a branch is not taken, only all attributes tell what else needs a target.
        selecting = {*map(graph.package_of, found.graph.index.with_trait(graph.SELECTS))}
        if defaults or not selecting:
            return found
        if len(selecting) > _limit(found):
            return Known(self._query(tree, defaults=True), read.manifest, read.key, True)
        # What the cache holds of it below is a part of this.
        self.graphs.keep(read.key, found)
        chosen = tuple(sorted(selecting))
        again = self._query(tree, defaults=True, packages=chosen)
        return found.over(again, chosen, read.manifest)

    def _in_part(
        self, tree: Tree, read: _Read, like: Known, packages: Collection[str]
    ) -> Known | None:
        """The graph as `like` but for `packages`; None if Bazel has to be asked for all of it."""
        here = tuple(sorted(p for p in packages if p in read.manifest.packages))
        # What Bazel left out of the other graph, as .bazelignore says, it leaves out here.
        ignored = like.manifest.packages.keys() - like.graph.loads.keys()
        asked = [package for package in here if package not in ignored]
        try:
            found = self._query(tree, defaults=True, packages=asked) if asked else None
        except bazel.GraphError:
            return None
        if found is None:
            found = Graph({}, like.graph.release)
        if found.release != like.graph.release:
            return None
        return like.over(found, tuple(sorted(packages)), read.manifest)

    @contextmanager
    def exported(self, tree: Tree) -> Iterator[bazel.Place]:
        """A checkout of exactly `tree` in the cache, for tests to run in, and a Bazel of its own.

        It is the same folder each time, so that wheels are fetched and kept once.
        """
        place = cache.make_folder(self.folder / "export")
        with cache.locked(place / "lock", self.notify, "runs tests of another revision"):
            self._check_out(tree, place)
            self.repository.make_repository(tree, place / "tree", place / "index")
            yield bazel.Place(place / "tree", self.workspace, place / "output_base")

    def _query(self, tree: Tree, *, defaults: bool, packages: Sequence[str] | None = None) -> Graph:
        self._check_out(tree, self.folder)
        self._head_start.end()
        made = self._own_bazel()
        found = made.graph(self._checkout, self.notify, defaults=defaults, packages=packages)
        read = self._read_files(tree)
        # Of a BUILD.bazel, Bazel does not say what it loads.
        silent = [n for n in read.manifest.packages if f"{n}:BUILD.bazel" in found.targets]
        loads = Loads(read.files, read.steering.own_names).of(silent)
        return replace(found, loads={**loads, **found.loads})

    def _check_out(self, tree: Tree, place: Path) -> None:
        # The mark outlives an interruption, after which the folder cannot be trusted.
        checkout, index, mark = place / "tree", place / "index", place / "unfinished"
        if mark.exists() and not (place == self.folder and tree.id in self._begun):
            shutil.rmtree(checkout, ignore_errors=True)
            index.unlink(missing_ok=True)
        mark.touch()
        self.repository.check_out(tree, checkout, index)
        mark.unlink()
        self._begun.clear()


def _few(known: Known, other: Manifest) -> set[str] | None:
    if not known.graph.loads:
        # A Bazel that does not say what packages load.
        return None
    packages = manifest.reached(known.manifest, known.graph.loads, other)
    if packages is None or not all(map(bazel.can_name, packages)):
        return None
    read_anew = packages | {*layered.split(known.graph.index)[1]}
    return packages if len(read_anew) <= _limit(known) else None


def _limit(known: Known) -> int:
    return max(_FEW, len(known.manifest.packages) // 4)


def loaded_outside(files: FileTable, steering: inputs.SteeringInputs, found: Graph) -> list[str]:
    """Paths of what steers or builds `found` that links lead to out of the tree, sorted."""
    names: set[str] = set()
    if files.has_links:
        names = {path for path in files.entries if inputs.is_steering(path)}
        paths = map(graph.source_path, found.index.sources())
        names |= {path for path in paths if path and inputs.is_steering(path)}
    outside = (files.outside(path) for path in names | steering.paths())
    return sorted({path for path in outside if path is not None})
