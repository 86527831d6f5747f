"""Which pool each test asks a remote scheduler for."""

import json
from typing import Any

import pytest

from testing.graph.bazel import Graph

# A test of this repository carries its pool's name as a tag; see //testing/private:pool_test.bzl.
TESTS = "kind(py_test, //testing/... + //tools/... + //layers/...)"


@pytest.fixture(scope="module")
def tests(graph: Graph) -> dict[str, dict[str, Any]]:
    """The attributes of each Python test by its label."""
    flags = ["--output=streamed_jsonproto", "--noproto:flatten_selects"]
    rules = [json.loads(line)["rule"] for line in graph.query(*flags, TESTS)]
    return {rule["name"]: {item["name"]: item for item in rule["attribute"]} for rule in rules}


def test_each_test_asks_for_the_pool_that_its_tags_name(tests: dict[str, dict[str, Any]]) -> None:
    wrong = {}
    for label, attributes in tests.items():
        asked = {
            item["key"]: item["value"]
            for item in attributes["exec_properties"].get("stringDictValue", [])
        }
        tags = attributes["tags"]["stringListValue"]
        if set(asked) != {"test.Pool"} or asked["test.Pool"] not in tags:
            wrong[label] = asked
    assert len(tests) > 100
    assert not wrong


def test_only_tests_of_a_gpu_pool_ask_for_one(tests: dict[str, dict[str, Any]]) -> None:
    for label, attributes in tests.items():
        tags = attributes["tags"]["stringListValue"]
        pool = attributes["exec_properties"]["stringDictValue"][0]["value"]
        assert (pool != "cpu") == ("gpu" in tags), label
