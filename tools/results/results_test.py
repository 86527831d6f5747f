import json
import zipfile
from pathlib import Path

import pytest

from tools.results import results
from tools.results.reading import records, target_seconds
from tools.results.tables import tables

LAYER = {
    "target": "//testing/quant:a_test_h100",
    "format": "int8_channel",
    "kind": "column",
    "backends": {"per_token_int8_quant": "triton", "int8_scaled_mm": "sgl_kernel"},
    "device": "NVIDIA H200",
    "seconds": 0.25,
    "ok": True,
    "statistics": {"gain": 1.0002, "z_row": 3.0, "z_tile": -4.5, "outside": 0.0},
}
WORSE = {**LAYER, "ok": False, "statistics": {"gain": 0.99, "z_row": 90.0}}
MOE = {
    **LAYER,
    "target": "//testing/moe:moe_test_h100",
    "kind": "moe",
    "backends": {"grouped_mm": "triton", "moe_combine": "triton"},
    "statistics": {"gain": 1.0, "hidden.gain": 0.998, "hidden.z_row": 2.5, "z_row": 1.0},
}
ATTENTION = {
    **{"target": "//testing/attention/swa:triton_test_h100", "attention": "swa"},
    **{"backend": "triton", "mode": "decode", "requests": 10, "device": "NVIDIA H200"},
    **{"seconds": 0.5, "ok": True, "statistics": {"gain": 0.999, "z_head": 2.0, "outside": 0.0}},
}
ENCODER = {"target": "//x:a", "encoder": "e", "compared": 2048, "near_ties": 9, "other_code": 1}
BIAS = {
    **{"target": "//x:b", "format": "mxfp8", "family": "row", "device": "CPU"},
    "smallest": {"grid": 9.5e-7, "allclose": 0.0, "cosine": None, "calc_diff": 1.0},
}
FLIPS = {
    **{"target": "//x:b", "format": "mxfp8", "tensor": "weight"},
    **{"found": 150, "missed": 0, "unchanged": 0, "invisible": 3},
}


def write(folder: Path, *entries: object, name: str = "stats.jsonl") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(e) + "\n" for e in entries))


def test_layers_of_one_backend_make_one_row_with_the_worst_figures(tmp_path: Path) -> None:
    write(tmp_path / "a" / "test.outputs", LAYER, WORSE)

    (table,) = tables(records(tmp_path))

    assert table.title == "Layers, `//testing/quant`, NVIDIA H200"
    assert table.rows == [
        ["a_test_h100", "int8_channel", "sgl_kernel", "2", "1", "1.0e-02", "90.0", "", "0.5"]
    ]
    assert table.wrong == 1


def test_the_stages_of_a_moe_layer_count(tmp_path: Path) -> None:
    write(tmp_path / "out", MOE)

    (table,) = tables(records(tmp_path))

    assert table.rows[0][5:7] == ["2.0e-03", "2.5"]


def test_calls_of_attention_are_counted_by_backend_and_mode(tmp_path: Path) -> None:
    worse = {**ATTENTION, "ok": False, "statistics": {"gain": 1.002, "z_head": 9.0}}
    write(tmp_path / "a", ATTENTION, worse, {**ATTENTION, "mode": "draft", "requests": 3})

    (table,) = tables(records(tmp_path))

    assert table.title == "Attention, NVIDIA H200"
    name = "`//testing/attention/swa:triton_test_h100`"
    assert table.rows == [
        [name, "swa", "triton", "decode", "2", "20", "1", "2.0e-03", "9.0", "1.0"],
        [name, "swa", "triton", "draft", "1", "3", "0", "1.0e-03", "2.0", "0.5"],
    ]
    assert table.wrong == 1


def test_each_kind_of_record_has_its_table(tmp_path: Path) -> None:
    write(tmp_path / "a", MOE, ENCODER, LAYER)
    write(tmp_path / "b", FLIPS, BIAS, name="strength.jsonl")
    write(tmp_path / "c", {"target": "//x:c", "steps": [1, 2]})

    made = {table.title: table for table in tables(records(tmp_path))}

    assert list(made) == [
        "Layers, `//testing/moe`, NVIDIA H200",
        "Layers, `//testing/quant`, NVIDIA H200",
        "Encoders",
        "Smallest bias found in 19 of 20 layers, percent",
        "Single flipped bits",
        "Other records",
    ]
    rows = [table.rows[0] for table in made.values()][2:]
    assert rows == [
        ["`e`", "2,048", "9", "1", "`//x:a`"],
        ["mxfp8", "row", "CPU", "0.000095", "rejects right code", "never", "100"],
        ["mxfp8", "`weight`", "150", "0", "0", "3"],
        ["//x:c", "[1, 2]"],
    ]
    assert not any(table.wrong for table in made.values())


def test_zipped_outputs_are_read_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "outputs.zip", "w") as archive:
        archive.writestr("stats.jsonl", json.dumps(LAYER) + "\n")

    assert list(records(tmp_path)) == [LAYER]


def test_the_table_is_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "out", LAYER)

    assert results.main([str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "### Layers, `//testing/quant`, NVIDIA H200",
        "",
        "| test | format | matmul | layers | wrong | gain error | worst z | noise | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| a_test_h100 | int8_channel | sgl_kernel | 1 | 0 | 2.0e-04 | 4.5 |  | 0.2 |",
    ]


@pytest.mark.parametrize("gains", [[1.001, float("nan")], [float("nan"), 1.001]])
def test_a_gain_that_is_no_number_is_the_worst(tmp_path: Path, gains: list[float]) -> None:
    write(tmp_path / "out", *({**LAYER, "statistics": {"gain": gain}} for gain in gains))

    (table,) = tables(records(tmp_path))

    assert (table.rows[0][5], table.wrong) == ("nan", 1)


@pytest.mark.parametrize("line", ["{}", "[]", "{", '{"target": 1}'])
def test_a_damaged_record_is_named(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stats.jsonl").write_text(line + "\n")

    assert results.main([str(tmp_path)]) == 2
    assert "stats.jsonl, line 1: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ((LAYER, ATTENTION, ENCODER, BIAS, FLIPS), 0),
        ((LAYER, WORSE), 1),
        (({**ENCODER, "compared": 0},), 1),
        (({**FLIPS, "missed": 1},), 1),
        ((), 2),
    ],
)
def test_the_exit_status_says_whether_all_was_right(
    tmp_path: Path, entries: tuple[object, ...], status: int
) -> None:
    write(tmp_path / "out", *entries)

    assert results.main([str(tmp_path)]) == status


def test_the_shards_of_a_target_are_added_up(tmp_path: Path) -> None:
    for place, seconds in [("a/t/shard_1_of_2", 1.5), ("a/t/shard_2_of_2", 2.0), ("a/u", 4.0)]:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "test.xml").write_text(f'<testsuites><testsuite time="{seconds}"/></testsuites>')

    assert target_seconds(tmp_path) == {"//a:t": 3.5, "//a:u": 4.0}


def test_a_target_is_named_from_the_folder_of_all_logs(tmp_path: Path) -> None:
    folder = tmp_path / "bazel-testlogs" / "testing" / "quant"
    (folder / "t").mkdir(parents=True)
    (folder / "t" / "test.xml").write_text('<testsuites><testsuite time="1"/></testsuites>')

    assert target_seconds(folder) == {"//testing/quant:t": 1.0}


def test_the_folder_may_be_that_of_one_target(tmp_path: Path) -> None:
    write(tmp_path / "test.outputs", LAYER)
    (tmp_path / "test.xml").write_text('<testsuites><testsuite time="1"/></testsuites>')

    assert list(target_seconds(tmp_path).values()) == [1.0]
    assert results.main([str(tmp_path)]) == 0


@pytest.mark.parametrize("damaged", ["<testsui", '<testsuite time="x"/>'])
def test_damaged_logs_are_named(
    damaged: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t" / "test.outputs", LAYER)
    (tmp_path / "t" / "test.xml").write_text(damaged)

    assert results.main([str(tmp_path)]) == 2
    assert "t/test.xml: " in capsys.readouterr().err


def test_bytes_that_are_no_text_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stats.jsonl").write_bytes(b'{"target": "//a:b"}\n\xff\xfe\n')

    assert results.main([str(tmp_path)]) == 2
    assert "stats.jsonl, line 2: no JSON" in capsys.readouterr().err
