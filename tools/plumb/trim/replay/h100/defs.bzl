"""How the replayed suites declare a test: in suites, with the seconds that each takes there."""

# How the table's suites run: the field's names, with the pool and architecture behind them.
SUITES = {
    "base_b_1_gpu_large": struct(arch = "sm90", cadence = "per-commit", gpus = 1, name = "base-b-test-1-gpu-large", pool = "h100"),
    "base_b_4_gpu_b200": struct(arch = "sm100", cadence = "per-commit", gpus = 4, name = "base-b-test-4-gpu-b200", pool = "b200"),
    "base_c_4_gpu_h100": struct(arch = "sm90", cadence = "per-commit", gpus = 4, name = "base-c-test-4-gpu-h100", pool = "h100"),
    "extra_a_1_gpu_large": struct(arch = "sm90", cadence = "labelled", gpus = 1, name = "extra-a-test-1-gpu-large", pool = "h100"),
}

def _claim_impl(_ctx):
    return []

coverage_claim = rule(
    implementation = _claim_impl,
    attrs = {
        "claim": attr.string(mandatory = True),
        "demands": attr.string_list(mandatory = True),
        "level": attr.string(mandatory = True),
        "sentence": attr.string(mandatory = True),
    },
    doc = "A behaviour that tests vouch for.",
)

def _served_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "#!/bin/sh\necho 'a stand-in: there is no server here'\nexit 1\n", is_executable = True)
    return [DefaultInfo(executable = script)]

served_test = rule(
    implementation = _served_test_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".py"], mandatory = True),
    },
    doc = "Stands in for the target that would run the sources. It is asked about, never run.",
    test = True,
)

def ci_test(*, name, srcs, covers, suites, level):
    """Declares NAME_SUITE for each suite.

    Args:
        name: ends in _test.
        srcs: sources.
        covers: claims of //claims.
        suites: dict from a key of SUITES to seconds.
        level: "layer" or "e2e".
    """
    for key, seconds in suites.items():
        suite = SUITES[key]
        served_test(
            name = "%s_%s" % (name, key),
            srcs = srcs,
            exec_properties = {"test.Pool": suite.pool},
            tags = sorted(["covers:" + claim for claim in covers] + [
                "cadence:" + suite.cadence,
                "gpu",
                "gpus:%d" % suite.gpus,
                "level:" + level,
                "seconds:%d" % seconds,
                "sm:" + suite.arch,
                "suite:" + suite.name,
            ]),
        )
