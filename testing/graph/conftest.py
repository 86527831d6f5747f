from collections.abc import Iterator

import pytest

from testing.graph.bazel import Graph


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with Graph(tmp_path_factory.mktemp("graph")) as graph:
        yield graph
