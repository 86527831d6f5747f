"""Declarations, right and wrong, and what the vocabulary makes of them."""

load("//testing/private:checks.bzl", "keyword_problems", "problems_of")
load("//testing/private:coverage_claim.bzl", "claim_problems")
load("//testing/private:pool_test.bzl", "pool_tags")
load("//testing/private:spelling.bzl", "suggestion")

def _problems(**changes):
    declaration = dict(
        cadence = "per-commit",
        covers = ["quant.int8_channel.linear.numerics"],
        deps = [],
        gpus = None,
        levels = ["layer"],
        name = "int8_linear_test",
        pools = ["cpu", "h100"],
        seconds = {"cpu": 12, "h100": 20},
        srcs = ["int8_linear_test.py"],
        tags = [],
    )
    declaration.update(changes)
    return problems_of(**declaration)

def _claim(level = "layer", sentence = "It is so.", demands = ["cpu:per-commit"]):
    return struct(demands = demands, level = level, sentence = sentence)

CASES = {
    "cpu_tags": pool_tags(
        cadence = "per-commit",
        covers = ["quant.int8_channel.linear.numerics"],
        gpus = 0,
        level = "layer",
        pool = "cpu",
        seconds = 12,
    ),
    "gpu_tags": pool_tags(
        cadence = "nightly",
        covers = ["quant.int8_channel.linear.numerics"],
        gpus = 2,
        level = "layer",
        pool = "h100",
        seconds = 20,
    ),
    "absent_gpu_tags": pool_tags(
        cadence = "per-commit",
        covers = [],
        gpus = 1,
        level = "layer",
        pool = "b200",
        seconds = 5,
    ),
    "claims": {
        "right": claim_problems("a", _claim()),
        "of_unknown_arch": claim_problems("a", _claim(demands = ["sm10:per-commit"])),
        "of_unknown_cadence": claim_problems("a", _claim(demands = ["sm90:nightyl"])),
        "of_unknown_level": claim_problems("a", _claim(level = "layr")),
        "without_demands": claim_problems("a", _claim(demands = [])),
        "without_sentence": claim_problems("a", _claim(sentence = " ")),
    },
    "problems": {
        "bad_cadence": _problems(cadence = "per-comit"),
        "bad_gpus": _problems(gpus = 3),
        "bad_name": _problems(name = "int8_linear"),
        "bad_seconds": _problems(seconds = {"cpu": 12, "h100": 0}),
        "claim_twice": _problems(covers = ["quant.int8_channel.linear.numerics"] * 2),
        "gpus_without_gpu_pool": _problems(gpus = 1, pools = ["cpu"], seconds = {"cpu": 12}),
        "missing_seconds": _problems(seconds = {"cpu": 12}),
        "no_claim": _problems(covers = []),
        "no_pool": _problems(pools = [], seconds = {}),
        "no_test_file": _problems(srcs = ["helpers.py"]),
        "pools_holds_none": _problems(pools = [None]),
        "pool_tag": _problems(tags = ["h100"]),
        "pool_twice": _problems(pools = ["cpu", "cpu"], seconds = {"cpu": 12}),
        "covers_is_a_string": _problems(covers = "quant.int8_channel.linear.numerics"),
        "covers_holds_a_number": _problems(covers = [5]),
        "deps_holds_none": _problems(deps = [None]),
        "deps_is_a_string": _problems(deps = "//layers:weights"),
        "manual_tag": _problems(tags = ["manual"]),
        "seconds_is_a_number": _problems(seconds = 5),
        "level_tag": _problems(tags = ["level:e2e"]),
        "reserved_tag": _problems(tags = ["seconds:3"]),
        "right": _problems(),
        "skip_of_a_listed_pool": _problems(skipped_on = {"h100": "no int8 there"}),
        "skip_of_an_unknown_pool": _problems(skipped_on = {"b20": "no int8 there"}),
        "skip_without_reason": _problems(skipped_on = {"b200": " "}),
        "skipped_on_is_a_list": _problems(skipped_on = ["b200"]),
        "skips": _problems(skipped_on = {"b200": "no int8 there"}),
        "srcs_holds_a_number": _problems(srcs = [5]),
        "tags_holds_a_number": _problems(tags = [5]),
        "unlisted_seconds": _problems(pools = ["cpu"]),
        "unknown_claim": _problems(covers = ["quant.int8_chanel.linear.numerics"]),
        "unknown_pool": _problems(pools = ["cpu", "h10"], seconds = {"cpu": 12, "h10": 20}),
        "wrong_level": _problems(levels = ["e2e", "perf"]),
    },
    "skipping_itself_tags": pool_tags(
        cadence = "per-commit",
        covers = ["quant.int8_channel.linear.numerics"],
        gpus = 1,
        level = "layer",
        pool = "h100",
        seconds = 5,
        skipped_on = {"h100": "its image lacks a package"},
    ),
    "skipping_tags": pool_tags(
        cadence = "per-commit",
        covers = [],
        gpus = 0,
        level = "layer",
        pool = "cpu",
        seconds = 5,
        skipped_on = {"b200": "no int8 matmul"},
    ),
    "env_is_a_string": keyword_problems({"env": "OWN=1"}),
    "env_is_none": keyword_problems({"env": None}),
    "keywords": keyword_problems({
        "env": {"OMP_NUM_THREADS": "8", "OWN": "1"},
        "size": "small",
    }),
    "suggestions": {
        "far": suggestion("zzzzzz", ["cpu", "h100"]),
        "near": suggestion("h10O", ["b200", "cpu", "h100"]),
    },
}
