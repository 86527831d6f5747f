from pathlib import Path

import pytest

from docs import methods

PAGE = Path("docs/methods.md").read_text()


@pytest.mark.parametrize("table", [methods.configs_table(), methods.backends_table()])
def test_the_page_has_what_the_layers_have(table: str) -> None:
    missing = [line for line in table.splitlines() if line not in PAGE]
    assert not missing, "paste what `tools/bazel run //docs:methods` prints into docs/methods.md"


def test_every_method_that_is_registered_stands_on_the_page() -> None:
    named = {config["quant_method"] for form in methods.FORMATS for config in form.configs.values()}
    assert named == set(methods.registered())
