"""A target graph of the 613 tests of SGLang's statistics, as `bazel query` prints one."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tools.plumb.sglang_stats.stats import Measured, measured

_RUNNER = re.compile(r"(?P<stage>\w+-\w)-test-(?:deepep-)?(?:cpu|(?P<gpus>\d)-gpu-(?P<kind>\w+))")
# What the field's runners are.
_KINDS = {
    "small": ("rtx5090", "sm120"),
    "large": ("h100", "sm90"),
    "h100": ("h100", "sm90"),
    "h20": ("h20", "sm90"),
    "h200": ("h200", "sm90"),
    "b200": ("b200", "sm100"),
    "gb300": ("gb300", "sm103"),
}
# A test of this length starts a server, as far as the made-up sources go.
_SERVER_SECONDS = 60
_CASES = (
    "self.assertGreater(evaluate(self.server, 'mmlu'), {0})",
    "self.assertGreater(evaluate(self.server, 'gsm8k', examples={0}), 0.6)",
    "self.assertLess(time_to_first_token(self.server), {0})",
    "out = generate(self.server, prompt='{0}')\n        self.assertTrue(out.text)",
    "for length in (1, {0}):\n            self.assertEqual(len(tokens(length)), length)",
    "with self.assertRaises(ValueError):\n            parse('{0}')",
    "x = make(rows={0})\n        self.assertLess(error(forward(x), reference(x)), 0.02)",
    "state = snapshot()\n        run(steps={0})\n        self.assertEqual(state, snapshot())",
)


@dataclass(frozen=True)
class Row(Measured):
    """A file in a suite, and the target that stands for it."""

    @property
    def label(self) -> str:
        """The target that stands for it."""
        folder, _, name = self.path.rpartition("/")
        return f"//{folder}:{name.removesuffix('.py')}_{self.suite}"

    @property
    def place(self) -> tuple[str, str, int]:
        """(pool, architecture, GPUs). Raises ValueError for a suite of an unknown runner."""
        match = _RUNNER.fullmatch(self.suite)
        if match is None:
            raise ValueError(f"suite {self.suite}: wanted STAGE-test-RUNNER")
        if match["kind"] is None:
            return "cpu", "cpu", 0
        pool, arch = _KINDS[match["kind"]]
        return pool, arch, int(match["gpus"])

    @property
    def declared(self) -> int:
        """Seconds as a target declares them: two CPU tests are published with 0."""
        return max(1, self.seconds)

    @property
    def cadence(self) -> str:
        """Base stages run on every commit, extra ones by label."""
        return "per-commit" if self.suite.startswith("base") else "labelled"

    @property
    def claims(self) -> tuple[str, str]:
        """What it vouches for, made up: its file and its folder."""
        folder = self.path.rpartition("/")[0].replace("/", ".")
        return f"folder.{folder}", f"file.{self.path.removesuffix('.py').replace('/', '.')}"


def rows() -> list[Row]:
    """All rows of the data."""
    return [Row(*astuple(row)) for row in measured()]


def write(folder: Path) -> Path:
    """Writes the graph and the sources below `folder`; returns the graph's file."""
    found = rows()
    messages = [_rule(row) for row in found]
    messages += [_suite(name, found) for name in sorted({row.suite for row in found})]
    for path in sorted({row.path for row in found}):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        longest = max(row.seconds for row in found if row.path == path)
        file.write_text(source(path, longest >= _SERVER_SECONDS))
        messages.append({"type": "SOURCE_FILE", "sourceFile": {"name": _label(path)}})
    graph = folder / "graph.jsonl"
    graph.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return graph


def source(path: str, server: bool) -> str:
    """A made-up test file: some of the cases above, by the path's checksum."""
    folder, _, name = path.removesuffix(".py").rpartition("/")
    seed = zlib.crc32(path.encode())
    chosen = [case for number, case in enumerate(_CASES) if seed >> number & 1] or _CASES[:1]
    lines = ["import unittest", "", f"class {name.title().replace('_', '')}(unittest.TestCase):"]
    if server:
        flag = f"--{name.removeprefix('test_').replace('_', '-')}"
        lines += ["    @classmethod", "    def setUpClass(cls):"]
        lines += [f"        cls.server = launch_server('{folder}', ['{flag}', '{seed % 7}'])"]
    for number, case in enumerate(chosen):
        lines += [f"    def test_{number}(self):", f"        {case.format(seed % 97)}"]
    return "\n".join(lines) + "\n"


def _label(path: str) -> str:
    return f"//{path.rpartition('/')[0]}:{path.rpartition('/')[2]}"


def _rule(row: Row) -> dict[str, Any]:
    pool, arch, gpus = row.place
    tags = [f"cadence:{row.cadence}", f"seconds:{row.declared}", f"suite:{row.suite}", "level:e2e"]
    tags += [f"covers:{claim}" for claim in row.claims]
    tags += ["gpu", f"gpus:{gpus}", f"sm:{arch}"] if gpus else ["cpu"]
    return _message(
        row.label,
        "py_test",
        [_label(row.path)],
        {"name": "tags", "type": "STRING_LIST", "stringListValue": sorted(tags)},
        {"name": "srcs", "type": "LABEL_LIST", "stringListValue": [_label(row.path)]},
        {
            "name": "exec_properties",
            "type": "STRING_DICT",
            "stringDictValue": [{"key": "test.Pool", "value": pool}],
        },
    )


def _suite(name: str, found: list[Row]) -> dict[str, Any]:
    members = [row.label for row in found if row.suite == name]
    return _message(f"//suites:{name}", "test_suite", members)


def _message(label: str, kind: str, inputs: list[str], *attributes: Any) -> dict[str, Any]:
    rule = {"name": label, "ruleClass": kind, "ruleInput": inputs, "attribute": list(attributes)}
    return {"type": "RULE", "rule": rule}
