"""Compares each test under the options that its own pool's config of .bazelrc gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tools.plumb import pools
from tools.plumb.compare.digest import Digests
from tools.plumb.compare.why import Chain, Tracer
from tools.plumb.graph import Graph
from tools.plumb.options import rc, reach
from tools.plumb.revision import Revision
from tools.plumb.steering import inputs
from tools.plumb.trees.files import changed_paths

_Options = dict[str, tuple[str, ...]]


class Tracers:
    """A tracer for each set of options that tests run under, made when first asked for.

    configs: what every test runs under; None for the config that is called like a test's pool,
    where .bazelrc defines one, and for none of CPU tests. So --run runs them.
    """

    def __init__(
        self, base: Revision, head: Revision, configs: Sequence[str] | None = None
    ) -> None:
        self._base, self._head, self._configs = base, head, configs
        self._settings = _package_settings(base, head), _package_settings(head, base)
        self._tracers: dict[str, Tracer] = {}
        self._by_pool: dict[str, Tracer] = {}
        self._by_config: dict[tuple[str, ...], Tracer] = {}

    @property
    def head(self) -> Graph:
        """The target graph of the head."""
        return self._head.graph

    def of(self, label: str) -> Tracer:
        """The tracer for `label`: a test, or what has no pool and so no config of its own."""
        target = self._head.graph.targets.get(label)
        is_test = target is not None and target.is_test
        pool = self._head.placement(target).pool if target is not None and is_test else pools.CPU
        return self.of_pool(pool)

    def of_pool(self, pool: str) -> Tracer:
        """The tracer for tests of `pool`."""
        if pool not in self._by_pool:
            self._by_pool[pool] = self._find(pool)
        return self._by_pool[pool]

    def _find(self, pool: str) -> Tracer:
        own = () if pool == pools.CPU else (pool,)
        configs = own if self._configs is None else tuple(self._configs)
        if configs not in self._by_config:
            options = [rc.effective(side.steering.options, configs) for side in self._sides()]
            # Pools whose options come to the same share their digests.
            key = str([_reaching(found) for found in options])
            if key not in self._tracers:
                self._tracers[key] = self._tracer(*options)
            self._by_config[configs] = self._tracers[key]
        return self._by_config[configs]

    def changed(self, label: str) -> bool:
        """As Tracer.changed."""
        return self.of(label).changed(label)

    def reaches_outside(self, label: str) -> bool:
        """As Tracer.reaches_outside."""
        return self.of(label).reaches_outside(label)

    def chain(self, label: str) -> Chain:
        """As Tracer.chain."""
        return self.of(label).chain(label)

    def undecided(self) -> list[str]:
        """Conditions of select()s of which all branches counted, in what was compared so far."""
        return sorted({c for t in self._tracers.values() for c in t.head.branches.undecided})

    def _sides(self) -> tuple[Revision, Revision]:
        return self._base, self._head

    def _tracer(self, old: _Options, new: _Options) -> Tracer:
        made = [
            Digests(side.graph, side.files, side.steering, settings, name, options)
            for side, settings, name, options in zip(
                self._sides(), self._settings, ("base", "head"), (old, new), strict=True
            )
        ]
        return Tracer(*made)


def _reaching(options: _Options) -> list[tuple[str, tuple[str, ...]]]:
    kept: Callable[[str], bool] = lambda name: reach.is_flag(name) or name == "define"  # noqa: E731
    found = {name: values for name, values in options.items() if kept(name)}
    return sorted({**found, **reach.of_every_test(options), **reach.of_languages(options)}.items())


def _package_settings(revision: Revision, other: Revision) -> dict[str, str]:
    """package() settings of the packages whose BUILD file differs from the other revision's."""
    settings = {}
    files = revision.files
    # Behind a link, a file is another one though its entry is the same.
    links = files.has_links or other.files.has_links
    paths = files.entries if links else changed_paths(other.files, files)
    for path in filter(inputs.is_build_file, paths):
        if path not in files.entries:
            continue
        if other.files.identity(path) != files.identity(path):
            text = files.text(path) or ""
            settings[path.rpartition("/")[0]] = inputs.package_settings(text)
    return settings
