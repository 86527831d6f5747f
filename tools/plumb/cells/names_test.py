from tools.plumb.cells.names import matching, nearest


def test_near_names_are_suggested() -> None:
    assert nearest("quant.int8_chanel", ["quant.int8_channel", "moe.loader"]) == (
        "did you mean quant.int8_channel?"
    )


def test_far_names_are_listed_or_counted() -> None:
    assert nearest("zzz", ["cpu", "h100"]) == "known: cpu, h100"
    assert nearest("zzz", []) == "known: none"
    assert nearest("zzz", [f"c{i:02}" for i in range(20)]) == (
        "known: c00, c01, c02, c03, c04 and 15 more"
    )


def test_a_glob_takes_the_whole_name_with_its_dots() -> None:
    names = ["quant.fp8.linear", "quant.int8.linear", "xquant.int8"]

    assert matching("quant.int8*", names) == ["quant.int8.linear"]
    assert matching("*.linear", names) == ["quant.fp8.linear", "quant.int8.linear"]
    assert matching("quant", names) == []
