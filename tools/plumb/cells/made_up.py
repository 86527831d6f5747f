"""Made-up test and claim targets for the tests of what reads cells."""

from __future__ import annotations

import json
from typing import Any

from tools.plumb.graph import RULE, Graph, Target

ARCHS = {"b200": "sm100", "h100": "sm90", "rtx5090": "sm120"}


def test_target(
    label: str,
    *covers: str,
    pool: str = "cpu",
    seconds: int | None = 5,
    gpus: int = 1,
    cadence: str = "per-commit",
    level: str = "layer",
    tags: tuple[str, ...] = (),
) -> Target:
    """A py_test with the tags that testing/defs.bzl writes, and `tags`."""
    package, _, name = label.partition(":")
    where = [pool]
    if pool != "cpu":
        where += ["gpu", f"gpus:{gpus}", f"resources:gpu:{gpus}", f"sm:{ARCHS[pool]}"]
    said = [f"cadence:{cadence}", f"level:{level}", *(f"covers:{claim}" for claim in covers)]
    said += [f"seconds:{seconds}"] if seconds is not None else []
    source = f"{package}:{name}.py"
    attributes = {
        "tags": sorted(where + said) + list(tags),
        "srcs": [source, "//testing/harness:main.py"],
        "exec_properties": [{"key": "test.Pool", "value": pool}],
        "generator_location": f"{package.removeprefix('//')}/BUILD.bazel:7:11",
    }
    return Target(label, RULE, "py_test", attributes, (source, "//testing/harness:main.py"))


test_target.__test__ = False  # type: ignore[attr-defined]


def claim_target(
    name: str,
    *demands: str,
    sentence: str = "It is so.",
    level: str = "layer",
    package: str = "//testing/claims",
) -> Target:
    """A coverage_claim that demands cells such as 'sm90:per-commit'; cpu:per-commit if unsaid."""
    attributes = {
        "claim": name,
        "sentence": sentence,
        "level": level,
        "demands": list(demands or ("cpu:per-commit",)),
    }
    return Target(f"{package}:{name}", RULE, "coverage_claim", attributes, ())


def suite_target(label: str, *tests: str, tags: tuple[str, ...] = ()) -> Target:
    """A test_suite of the tests."""
    return Target(label, RULE, "test_suite", {"tags": list(tags)}, tests)


def graph_of(*targets: Target) -> Graph:
    """A graph of the targets."""
    return Graph({target.label: target for target in targets}, "release 7.7.1")


def as_stream(graph: Graph) -> str:
    """The graph as `bazel query --output=streamed_jsonproto` prints it."""
    return "".join(f"{json.dumps(_message(t))}\n" for t in graph.targets.values())


def _message(target: Target) -> dict[str, Any]:
    attributes = [_attribute(name, value) for name, value in target.attributes.items()]
    rule = {"name": target.label, "ruleClass": target.rule_class, "attribute": attributes}
    return {"type": "RULE", "rule": {**rule, "ruleInput": list(target.deps)}}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if name == "exec_properties":
        return {"name": name, "type": "STRING_DICT", "stringDictValue": value}
    if isinstance(value, list):
        return {"name": name, "type": "STRING_LIST", "stringListValue": value}
    return {"name": name, "type": "STRING", "stringValue": value}


def large_graph(tests: int, cells: int) -> Graph:
    """A graph of so many tests, on three pools, and claims that demand so many cells.

    Each claim demands four cells; a test covers three claims; about half of the cells is uncovered.
    """
    demands = ("cpu:per-commit", "sm90:per-commit", "sm90:nightly", "sm100:per-commit")
    claims = [claim_target(f"area{i % 40}.claim{i}", *demands) for i in range(cells // 4)]
    names = [claim.attributes["claim"] for claim in claims]
    found = list(claims)
    for i in range(tests):
        covers = [names[(3 * i + j) % len(names)] for j in range(3)]
        found.append(
            test_target(
                f"//suite{i % 60}:test_{i}",
                *covers,
                pool=("cpu", "h100", "b200")[i % 3],
                seconds=5 + i % 200,
                gpus=(1, 2, 4, 8)[i % 4],
                cadence=("per-commit", "nightly", "labelled")[i % 7 % 3],
            )
        )
    return graph_of(*found)
