import json
import zipfile
from pathlib import Path

import pytest

from tools.results import results

ENTRY = {
    "target": "//testing/quant:a_test_h100",
    "format": "int8 channel",
    "backends": {"per_token_int8_quant": "triton", "int8_scaled_mm": "sgl_kernel"},
    "device": "NVIDIA H200",
    "seconds": 0.25,
    "ok": True,
    "statistics": {"gain": 1.0002, "z_row": 3.0, "z_tile": -4.5, "outside": 0.0},
}
WORSE = {**ENTRY, "ok": False, "statistics": {"gain": 0.99, "z_row": 90.0}}


def write(folder: Path, *entries: object) -> None:
    folder.mkdir(parents=True)
    (folder / "stats.jsonl").write_text("".join(json.dumps(e) + "\n" for e in entries))


def test_cases_of_one_backend_make_one_row_with_the_worst_figures(tmp_path: Path) -> None:
    write(tmp_path / "a" / "test.outputs", ENTRY, WORSE)

    (row,) = results.table(results.entries(tmp_path))

    assert (row.backend, row.cases, row.wrong, row.z) == ("sgl_kernel", 2, 1, 90.0)
    assert row.gain == pytest.approx(0.01)
    assert row.seconds == pytest.approx(0.5)


def test_zipped_outputs_are_read_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "outputs.zip", "w") as archive:
        archive.writestr("stats.jsonl", json.dumps(ENTRY) + "\n")

    (row,) = results.table(results.entries(tmp_path))

    assert row.z == 4.5


def test_the_table_is_markdown(tmp_path: Path) -> None:
    write(tmp_path / "out", ENTRY)

    line = results.markdown(results.table(results.entries(tmp_path))).splitlines()[-1]

    assert line == (
        "| `//testing/quant:a_test_h100` | int8 channel | sgl_kernel | NVIDIA H200 | 1 | 0 "
        "| 2.0e-04 | 4.5 | 0.2 |"
    )


@pytest.mark.parametrize("gains", [[1.001, float("nan")], [float("nan"), 1.001]])
def test_a_gain_that_is_no_number_is_the_worst(tmp_path: Path, gains: list[float]) -> None:
    write(tmp_path / "out", *({**ENTRY, "statistics": {"gain": gain}} for gain in gains))

    (row,) = results.table(results.entries(tmp_path))

    assert (row.gain, row.wrong) == (float("inf"), 1)


@pytest.mark.parametrize("line", ["{}", "[]", "{", '{"target": 1}'])
def test_a_damaged_record_is_named(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stats.jsonl").write_text(line + "\n")

    assert results.main([str(tmp_path)]) == 2
    assert "stats.jsonl, line 1: " in capsys.readouterr().err


@pytest.mark.parametrize(("entries", "status"), [((ENTRY,), 0), ((ENTRY, WORSE), 1), ((), 2)])
def test_the_exit_status_says_whether_all_was_right(
    tmp_path: Path, entries: tuple[object, ...], status: int
) -> None:
    write(tmp_path / "out", *entries)

    assert results.main([str(tmp_path)]) == status
