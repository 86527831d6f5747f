"""One kind of table for each kind of record."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tools.results.reading import Record


@dataclass(frozen=True)
class Table:
    """Rows under a heading. wrong: how many records say that something is not as it should be."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    wrong: int = 0

    def markdown(self) -> str:
        """With its heading."""
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        return "\n".join([f"### {self.title}", "", *(f"| {' | '.join(line)} |" for line in lines)])


def tables(found: Iterable[Record]) -> list[Table]:
    """All records, in tables: layers by package and device, then the other kinds."""
    kinds: dict[str, list[Record]] = defaultdict(list)
    for entry in found:
        kind = next(name for name, (fields, _) in _KINDS.items() if entry.keys() >= fields)
        kinds[kind].append(entry)
    return [
        table for name, (_, make) in _KINDS.items() if kinds[name] for table in make(kinds[name])
    ]


def _layers(found: list[Record]) -> list[Table]:
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for entry in found:
        package = entry["target"].partition(":")[0]
        groups[package, entry["device"]].append(entry)
    return [
        _layers_of(f"Layers, `{package}`, {device}", entries)
        for (package, device), entries in sorted(groups.items())
    ]


def _layers_of(title: str, found: list[Record]) -> Table:
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for entry in found:
        # The quantiser of x is only a companion of what multiplies.
        names = entry["backends"].items()
        matmul = next((backend for name, backend in names if "quant" not in name), "torch")
        groups[entry["target"].partition(":")[2], entry["format"], matmul].append(entry)
    heads = ["test", "format", "matmul", "layers", "wrong", "gain error", "worst z", "noise", "s"]
    rows = [[*key, *_figures(entries)] for key, entries in sorted(groups.items())]
    return Table(title, heads, rows, sum(map(_is_wrong, found)))


def _figures(found: list[Record]) -> list[str]:
    scores = _statistics(found, lambda name: name.startswith("z_"))
    gains = [gain - 1 for gain in _statistics(found, lambda name: name == "gain")]
    noises = _statistics(found, lambda name: name == "activation_noise_ratio")
    return [
        *(str(len(found)), str(sum(map(_is_wrong, found)))),
        *(_worst(gains, ".1e"), _worst(scores, ".1f")),
        _worst([noise - 1 for noise in noises], ".1%"),
        f"{sum(entry['seconds'] for entry in found):.1f}",
    ]


def _statistics(found: list[Record], asked: Callable[[str], bool]) -> list[float]:
    """Of every stage: "z_row" and "hidden.z_row"."""
    return [
        value
        for entry in found
        for name, value in entry["statistics"].items()
        if asked(name.rpartition(".")[2])
    ]


def _worst(values: Sequence[float], form: str) -> str:
    """The largest; empty if nothing was asked, and "nan" if any is none, which max() forgets."""
    if any(map(math.isnan, values)):
        return "nan"
    return format(max(map(abs, values)), form) if values else ""


def _is_wrong(entry: Record) -> bool:
    return not entry["ok"] or any(map(math.isnan, entry["statistics"].values()))


def _attention(found: list[Record]) -> list[Table]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for entry in found:
        groups[entry["device"]].append(entry)
    return [_attention_on(device, entries) for device, entries in sorted(groups.items())]


def _attention_on(device: str, found: list[Record]) -> Table:
    groups: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for entry in found:
        key = (entry["target"], entry["attention"], entry["backend"], entry["mode"])
        groups[key].append(entry)
    heads = ["test", "layer", "backend", "mode", "calls", "requests", "wrong"]
    heads += ["gain error", "worst z", "s"]
    rows = []
    for key, entries in sorted(groups.items()):
        calls, wrong, gain, score, _, seconds = _figures(entries)
        requests = str(sum(entry["requests"] for entry in entries))
        rows.append([f"`{key[0]}`", *key[1:], calls, requests, wrong, gain, score, seconds])
    return Table(f"Attention, {device}", heads, rows, sum(map(_is_wrong, found)))


def _encoders(found: list[Record]) -> list[Table]:
    heads = ["encoder", "codes compared", "near ties", "of these another code", "test"]
    rows = [
        [
            f"`{e['encoder']}`",
            *(f"{e[field]:,}" for field in ("compared", "near_ties", "other_code")),
            f"`{e['target']}`",
        ]
        for e in found
    ]
    # A test that failed before it compared anything has left its zeros.
    return [Table("Encoders", heads, rows, sum(not e["compared"] for e in found))]


def _biases(found: list[Record]) -> list[Table]:
    criteria = list(dict.fromkeys(name for e in found for name in e["smallest"]))
    rows = [
        [e["format"], e["family"], e["device"], *(_percent(e["smallest"], c) for c in criteria)]
        for e in sorted(found, key=lambda e: (e["format"], e["device"]))
    ]
    heads = ["format", "place", "device", *criteria]
    return [Table("Smallest bias found in 19 of 20 layers, percent", heads, rows)]


def _percent(smallest: dict[str, float | None], criterion: str) -> str:
    if criterion not in smallest:
        return ""
    gain = smallest[criterion]
    if gain is None:
        return "never"
    # Two digits, and no exponent.
    return format(Decimal(f"{100 * gain:.2g}"), "f") if gain else "rejects right code"


def _flips(found: list[Record]) -> list[Table]:
    heads = ["format", "tensor", "found", "missed", "changed nothing", "within the roundings"]
    fields = ("found", "missed", "unchanged", "invisible")
    rows = [
        [e["format"], f"`{e['tensor']}`", *(f"{e[field]:,}" for field in fields)]
        for e in sorted(found, key=lambda e: (e["format"], e["tensor"]))
    ]
    return [Table("Single flipped bits", heads, rows, sum(bool(e["missed"]) for e in found))]


def _others(found: list[Record]) -> list[Table]:
    """Of a kind that this tool does not know: as they are, a table for each set of fields."""
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for entry in found:
        groups[tuple(entry)].append(entry)
    return [
        Table("Other records", fields, [[_plain(e[f]) for f in fields] for e in entries])
        for fields, entries in groups.items()
    ]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_KINDS: dict[str, tuple[set[str], Callable[[list[Record]], list[Table]]]] = {
    "attention": ({"attention", "backend", "mode", "requests", "statistics"}, _attention),
    "layers": ({"format", "backends", "device", "seconds", "ok", "statistics"}, _layers),
    "encoders": ({"encoder", "compared", "near_ties", "other_code"}, _encoders),
    "biases": ({"format", "family", "device", "smallest"}, _biases),
    "flips": ({"format", "tensor", "found", "missed", "unchanged", "invisible"}, _flips),
    "others": (set(), _others),
}
"""The fields that make a record one of a kind, and what makes its tables."""
