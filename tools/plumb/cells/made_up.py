"""Made-up test and claim targets for the tests of what reads cells."""

from __future__ import annotations

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
