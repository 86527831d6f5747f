"""strength_tests: what is asked of every format's tests, a target each, from three pytest files.

The package holds faults_test.py, power_test.py and null_runs_test.py, which run the formats that
PLUMBLINE_FORMAT names; all of them where it is unset.
"""

load("//testing:defs.bzl", "layer_test")

def strength_tests(*, name, format, family, seconds, deps, gpu_kinds = [], shards = None, nightly = []):
    """Declares NAME_faults_test, NAME_power_test, NAME_null_runs_test and a suite NAME of them.

    Args:
        name: the format, short.
        format: its name in the tests' own table of formats.
        family: the claims are FAMILY.faults and FAMILY.strength.
        seconds: dict from each of "faults", "power" and "null_runs" to dict from pool to seconds.
        deps: what the three files import.
        gpu_kinds: kinds that run on h100 as well.
        shards: dict from kind to shard_count, for kinds that take long.
        nightly: kinds that run each night, for their length; the others run on each commit.
    """
    claims = {"faults": "faults", "null_runs": "strength", "power": "strength"}
    for kind, claim in claims.items():
        layer_test(
            name = "%s_%s_test" % (name, kind),
            srcs = [kind + "_test.py"],
            covers = ["%s.%s" % (family, claim)],
            env = {"PLUMBLINE_FORMAT": format},
            pools = ["cpu", "h100"] if kind in gpu_kinds else ["cpu"],
            cadence = "nightly" if kind in nightly else "per-commit",
            seconds = seconds[kind],
            shard_count = (shards or {}).get(kind),
            deps = deps,
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s_test" % (name, kind) for kind in claims],
    )
