"""Third-party packages: which label means which, and which modules each one provides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tools.pip.lock import normalise

# Packages of other workspaces whose modules have another name. A workspace's policy adds its own.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "attrs": ("attr", "attrs"),
    "beautifulsoup4": ("bs4",),
    "grpcio": ("grpc",),
    "msgpack-python": ("msgpack",),
    "opencv-python": ("cv2",),
    "opencv-python-headless": ("cv2",),
    "pillow": ("PIL",),
    "protobuf": ("google.protobuf",),
    "pyjwt": ("jwt",),
    "pyserial": ("serial",),
    "pytest": ("pytest", "_pytest", "py"),
    "python-dateutil": ("dateutil",),
    "python-dotenv": ("dotenv",),
    "pyyaml": ("yaml",),
    "pyzmq": ("zmq",),
    "scikit-learn": ("sklearn",),
    "setuptools": ("setuptools", "pkg_resources"),
    "typing-extensions": ("typing_extensions",),
}
_NAME = r"([A-Za-z0-9._-]+?)"


@dataclass(frozen=True)
class Packages:
    """What stands outside.

    locked: normalised names of the packages in the locks. hubs: names of pip repositories.
    labels: further forms of labels, with {name}; imports: see Policy.
    """

    locked: frozenset[str] = frozenset()
    hubs: tuple[str, ...] = ("pip",)
    labels: tuple[str, ...] = ()
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def distribution(self, label: str) -> str | None:
        """The package that a label in canonical form stands for, if it is one."""
        if label not in self._distributions:
            self._distributions[label] = self._distribution(label)
        return self._distributions[label]

    def _distribution(self, label: str) -> str | None:
        for pattern in self._patterns:
            matched = pattern.fullmatch(label)
            if matched:
                name = normalise(matched[1])
                # One more target in the folder of such labels is no package.
                if not self.locked or name in self.locked:
                    return name
        return None

    @cached_property
    def _distributions(self) -> dict[str, str | None]:
        return {}

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        patterns = [_pattern(form) for form in self._forms()]
        patterns += [f"@[^/]*[~+]{re.escape(hub)}_(?:\\d+_)?{_NAME}//:pkg" for hub in self.hubs]
        patterns += [f"@[^/]*[~+]{re.escape(hub)}//{_NAME}:pkg" for hub in self.hubs]
        return [re.compile(pattern) for pattern in patterns]

    def label(self, name: str, known: Iterable[str]) -> str | None:
        """The label of a package, in the form that the workspace uses; None if it has none."""
        known = set(known)
        spelled = name.replace("-", "_")
        candidates = [form.format(name=spelled) for form in self._forms()]
        found = next((label for label in candidates if label in known), None)
        if found or not self._is_external(known):
            return found
        form = next(form for form in self._forms() if self._used(form, known))
        return form.format(name=spelled) if name in self.locked else None

    def modules(self, name: str) -> tuple[str, ...]:
        """The modules that a package provides."""
        found = self.imports.get(name) or _KNOWN.get(name)
        return found or (name.replace("-", "_"),)

    def owners(self, module: str, names: Iterable[str]) -> list[str]:
        """Those of `names` that provide `module`; the ones with the longest name for it."""
        best: dict[str, int] = {}
        for name in names:
            for provided in self.modules(name):
                if module == provided or module.startswith(f"{provided}."):
                    best[name] = max(len(provided), best.get(name, 0))
        longest = max(best.values(), default=0)
        return sorted(name for name, length in best.items() if length == longest)

    def _forms(self) -> list[str]:
        forms = list(self.labels)
        for hub in self.hubs:
            forms += [
                f"@{hub}//{{name}}:pkg",
                f"@{hub}_{{name}}//:pkg",
                f"@{hub}//{{name}}:{{name}}",
            ]
        return forms

    def _used(self, form: str, known: set[str]) -> bool:
        one = Packages(self.locked, (), (form,))
        return any(one.distribution(label) for label in known)

    def _is_external(self, known: set[str]) -> bool:
        return any(self._used(form, known) for form in self._forms() if form.startswith("@"))


def _pattern(form: str) -> str:
    return _NAME.join(map(re.escape, form.split("{name}")))
