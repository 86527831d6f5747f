from tools.results.count import count


def configured(label: str, **rest: object) -> dict[str, object]:
    return {"id": {"targetConfigured": {"label": label}}, **rest}


def completed(label: str, **rest: object) -> dict[str, object]:
    return {"id": {"targetCompleted": {"label": label}}, "completed": rest}


def summary(label: str, status: str) -> dict[str, object]:
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


TEST = {"configured": {"testSize": "SMALL"}}


def test_passed_and_failed_tests_are_counted_once() -> None:
    events = [
        configured("//a:library", configured={"targetKind": "py_library rule"}),
        configured("//a:good", **TEST),
        configured("//a:bad", **TEST),
        configured("//a:late", **TEST),
        *(completed(f"//a:{name}", success=True) for name in ("library", "good", "bad", "late")),
        summary("//a:good", "PASSED"),
        summary("//a:bad", "FAILED"),
        summary("//a:late", "TIMEOUT"),
    ]

    assert count(events) == (1, 2)


def test_a_test_that_cannot_be_built_failed() -> None:
    events = [configured("//a:no_source", **TEST), completed("//a:no_source", failureDetail={})]

    assert count(events) == (0, 1)


def test_a_test_that_was_built_and_left_out_by_its_tags_is_not_counted() -> None:
    events = [configured("//a:a_test_h100", **TEST), completed("//a:a_test_h100", success=True)]

    assert count(events) == (0, 0)


def test_a_target_whose_deps_do_not_load_failed() -> None:
    assert count([configured("//a:no_dep", aborted={"reason": "ANALYSIS_FAILURE"})]) == (0, 1)


def test_a_test_that_an_interrupted_build_did_not_come_to_failed() -> None:
    stopped = {"id": {"testSummary": {"label": "//a:t"}}, "aborted": {"reason": "USER_INTERRUPTED"}}

    assert count([configured("//a:t", **TEST), completed("//a:t", success=True), stopped]) == (0, 1)
