from tools.results.count import count


def configured(label: str, **rest: object) -> dict[str, object]:
    return {"id": {"targetConfigured": {"label": label}}, **rest}


def summary(label: str, status: str) -> dict[str, object]:
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


TEST = {"configured": {"testSize": "SMALL"}}


def test_passed_and_failed_tests_are_counted_once() -> None:
    events = [
        configured("//a:library", configured={"targetKind": "py_library rule"}),
        configured("//a:good", **TEST),
        configured("//a:bad", **TEST),
        configured("//a:late", **TEST),
        summary("//a:good", "PASSED"),
        summary("//a:bad", "FAILED"),
        summary("//a:late", "TIMEOUT"),
    ]

    assert count(events) == (1, 2)


def test_a_test_that_cannot_be_built_failed() -> None:
    assert count([configured("//a:no_source", **TEST)]) == (0, 1)


def test_a_target_whose_deps_do_not_load_failed() -> None:
    assert count([configured("//a:no_dep", aborted={"reason": "ANALYSIS_FAILURE"})]) == (0, 1)
