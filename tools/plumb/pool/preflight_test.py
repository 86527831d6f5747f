import pytest

from tools.plumb.cells.model import Test
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import preflight
from tools.plumb.pool.asked import Asked

TESTS = {
    test.label: test
    for test in (
        Test("//a:cpu_test"),
        Test("//a:h100_test", "h100", "sm90", 1),
        Test("//a:two_test", "h100", "sm90", 2),
        Test("//b/c:b200_test", "b200", "sm100", 1),
        Test("//b/c:manual_test", "b200", "sm100", 1, idle="tagged manual"),
    )
}
TAGS = {label: ("gpu", test.pool) if test.gpus else ("cpu",) for label, test in TESTS.items()}


def part(pool: str | None, state: str = "up") -> dict[str, object]:
    return {"name": f"{pool}-0", "pool": pool, "state": state, "last_end": ""}


def chosen(filters: str, *targets: str) -> list[str]:
    asked = Asked(command="test", targets=targets)
    return [test.label for test in preflight.chosen(TESTS, asked, filters, TAGS)]


@pytest.mark.parametrize(
    ("filters", "targets", "labels"),
    [
        ("", (), ["//a:cpu_test", "//a:h100_test", "//a:two_test", "//b/c:b200_test"]),
        ("-gpu", ("//...",), ["//a:cpu_test"]),
        ("b200", ("//...",), ["//b/c:b200_test"]),
        ("gpu,-b200", ("//...", "-//a:two_test"), ["//a:h100_test"]),
        ("", ("//b/...",), ["//b/c:b200_test"]),
    ],
)
def test_targets_and_tags_choose_as_in_bazel(
    filters: str, targets: tuple[str, ...], labels: list[str]
) -> None:
    assert chosen(filters, *targets) == labels


def test_each_pool_without_a_worker_is_named_with_a_test_of_it() -> None:
    parts = [part(None), part("cpu"), part("h100", "waiting")]
    found = preflight.missing([*TESTS.values()][:4], parts)

    with pytest.raises(PlumbError) as raised:
        preflight.require(found, {"state": "up", "parts": parts})

    said = str(raised.value)
    assert "pool 'b200' has no worker that is up, and //b/c:b200_test would wait" in said
    assert "pool 'h100' has no worker that is up, and //a:h100_test and 1 more would wait" in said
    assert "pool 'cpu'" not in said


def test_a_test_of_two_gpus_finds_no_slot_that_has_them() -> None:
    parts = [part("h100")]
    found = preflight.missing([TESTS["//a:h100_test"], TESTS["//a:two_test"]], parts)

    with pytest.raises(PlumbError, match="//a:two_test takes 2 GPUs, and a slot has one"):
        preflight.require(found, {"state": "up", "parts": parts})


def test_a_part_that_is_held_is_named_before_bazel_starts() -> None:
    files = {**part(None, "held"), "name": "files", "last_end": "was stopped: the disk is full"}

    with pytest.raises(PlumbError, match=r"^files was stopped: the disk is full\.$") as raised:
        preflight.require(preflight.Missing(), {"state": "up", "parts": [part("cpu"), files]})

    assert raised.value.code is ExitCode.ENVIRONMENT


def test_parts_that_are_down_are_named_though_each_test_has_a_worker() -> None:
    files = {**part(None, "waiting"), "name": "files", "last_end": "was killed by SIGSEGV"}
    server = {**part(None, "starting"), "name": "server"}

    with pytest.raises(PlumbError) as raised:
        preflight.require(
            preflight.Missing(), {"state": "up", "parts": [files, server, part("cpu")]}
        )

    assert "files waits to be started again, as it was killed by SIGSEGV" in str(raised.value)
    assert "server is starting: go on when" in str(raised.value)
    assert raised.value.code is ExitCode.ENVIRONMENT


def test_a_pool_that_ends_takes_no_test() -> None:
    with pytest.raises(PlumbError, match="the pool is stopping"):
        preflight.require(preflight.Missing(), {"state": "stopping", "parts": [part("cpu")]})


def test_a_pool_with_a_worker_for_each_test_passes() -> None:
    parts = [part("cpu")]

    preflight.require(
        preflight.missing([TESTS["//a:cpu_test"]], parts), {"state": "up", "parts": parts}
    )
