"""Which branch of a select() a build takes, as far as the flags that .bazelrc sets decide it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.plumb.graph import Graph, Target, canonical

_DEFAULT = "//conditions:default"
_FLAG_DEFAULT = "build_setting_default"
# Attributes of a config_setting that its name, its users and not its meaning are about.
_CONDITIONS = ("values", "define_values", "flag_values", "constraint_values")


@dataclass
class Branches:
    """Decides select()s of one graph.

    options: name to values, as options.rc.effective gives them.
    """

    graph: Graph
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)
    _known: dict[str, bool | None] = field(default_factory=dict, repr=False)

    def has_transitions(self) -> bool:
        """True if a rule may set flags for what is below it, which the graph does not show."""
        return self.graph.has_transitions

    def resolve(self, value: Any) -> tuple[Any, set[str], set[str]]:
        """An attribute's value without branches not taken, and the labels taken and left.

        Where no flag decides, all of the select() stays.
        """
        taken: list[dict[str, Any]] = []
        for element in value["elements"]:
            entry = self._choose(element.get("entries", []))
            if entry is None:
                return value, set(_labels(value)), set()
            taken.append({k: v for k, v in entry.items() if k not in ("label", "isDefaultValue")})
        kept = set(_labels(taken))
        return _joined(taken, value.get("type", "")), kept, {*_labels(value)} - kept

    def _choose(self, entries: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        default: Mapping[str, Any] = {}
        matching = []
        for entry in entries:
            label = canonical(entry.get("label", ""))
            if label == _DEFAULT or not label:
                default = entry
                continue
            holds = self.holds(label)
            if holds is None:
                self.undecided.add(label)
                return None
            if holds:
                matching.append(entry)
        if len(matching) > 1:
            return None
        return matching[0] if matching else default or None

    def holds(self, label: str) -> bool | None:
        """Whether the config_setting holds; None if this cannot be known here."""
        if label not in self._known:
            self._known[label] = None
            self._known[label] = self._decide(self.graph.targets.get(label))
        return self._known[label]

    def _decide(self, setting: Target | None) -> bool | None:
        if setting is not None and setting.rule_class == "alias":
            return self.holds(canonical(setting.attributes.get("actual") or ""))
        if setting is None or setting.rule_class != "config_setting" or self.has_transitions():
            return None
        found = {name: setting.attributes.get(name) for name in _CONDITIONS}
        if any(isinstance(v, dict) for v in found.values()) or found["constraint_values"]:
            return None
        wanted = [(e["key"], e["value"]) for e in found["values"] or []]
        if any(name != "define" for name, _ in wanted):
            # Tools are built under other values of Bazel's own options.
            return None
        defines = [value for _, value in wanted]
        defines += [f"{e['key']}={e['value']}" for e in found["define_values"] or []]
        answers: list[bool | None] = [self._defined(define) for define in defines]
        flags = [(canonical(e["key"]), e["value"]) for e in found["flag_values"] or []]
        answers += [self._flag(label, value) for label, value in flags]
        if any(answer is False for answer in answers):
            return False
        return None if None in answers or not answers else True

    def _defined(self, define: str) -> bool:
        name = define.partition("=")[0]
        given = [value for value in self.options.get("define", ()) if value.split("=")[0] == name]
        return bool(given) and given[-1] == define

    def _flag(self, label: str, wanted: str) -> bool | None:
        target = self.graph.targets.get(label)
        if target is None or not isinstance(target.attributes.get(_FLAG_DEFAULT), (str, int)):
            return None
        if target.rule_class in ("label_flag", "label_setting", "alias"):
            return None
        given = self.options.get(label) or (target.attributes[_FLAG_DEFAULT],)
        if len({*given}) > 1 and not isinstance(given[-1], str):
            return None
        return _plain(given[-1]) == _plain(wanted)


def _plain(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return {"true": "1", "false": "0"}.get(text.lower(), text)


def _joined(taken: list[dict[str, Any]], kind: str) -> Any:
    """The value as if it had been written without select(), for lists and single values."""
    values = [next(iter(entry.values())) for entry in taken if len(entry) == 1]
    if kind.endswith("LIST") and len(values) + taken.count({}) == len(taken):
        return [one for value in values for one in value]
    if len(taken) == 1 and len(values) == 1:
        return values[0]
    return taken


def _labels(value: Any) -> Iterator[str]:
    """Every string in `value` that may be a label, in canonical form."""
    if isinstance(value, str):
        if "//" in value and "conditions:default" not in value:
            yield canonical(value)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _labels(one)
    elif isinstance(value, list):
        for one in value:
            yield from _labels(one)


labels_in = _labels
