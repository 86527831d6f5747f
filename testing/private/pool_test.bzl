"""One py_test of one pool: its tags, properties, time limit and runner from one place."""

load("@rules_python//python:defs.bzl", "py_test")
load("//testing:pools.bzl", "POOLS")

# Declared seconds are measured on a quiet machine; a limit of five times that is a hang, not noise.
_HEADROOM = 5
_TIMEOUTS = [("short", 60), ("moderate", 300), ("long", 900)]
_SIZES = [("small", 12), ("medium", 60), ("large", 300)]

def _first_at_least(steps, value, otherwise):
    for name, limit in steps:
        if value <= limit:
            return name
    return otherwise

def _skip_tag(pool, reason):
    return "skipped_on:%s (%s)" % (POOLS[pool].arch, reason)

def pool_tags(*, pool, seconds, gpus, covers, cadence, level, skipped_on = {}):
    """The tags that say where, how long, how often and for what a test runs.

    Args:
        pool: a key of POOLS.
        seconds: measured seconds on that pool.
        gpus: GPUs taken there; 0 on a pool without GPU.
        covers: claims.
        cadence: a member of CADENCES.
        level: "layer", "e2e", "perf" or "unit".
        skipped_on: dict from each pool where it skips itself, or would, to the reason.

    Returns:
        A sorted list of tags.
    """
    tags = ["cadence:" + cadence, "level:" + level, "seconds:%d" % seconds, "suite:%s-%s%s" % (
        cadence,
        pool,
        "-%dgpu" % gpus if gpus else "",
    )]
    tags += ["covers:" + claim for claim in covers]
    tags += [_skip_tag(other, reason) for other, reason in skipped_on.items()]
    if not POOLS[pool].present:
        tags.append("machine:none")
    if POOLS[pool].gpu:
        tags += ["gpu", pool, "gpus:%d" % gpus, "resources:gpu:%d" % gpus, "sm:" + POOLS[pool].arch]
    else:
        tags.append(pool)
    return sorted(tags)

def pool_test(*, name, pool, seconds, srcs, deps, gpus = 0, covers = [], cadence = "per-commit", level = "unit", skipped_on = {}, tags = [], env = {}, **kwargs):
    """Declares the py_test of one pool, run by pytest through //testing/harness:main.py.

    Args:
        name: the target's name.
        pool: a key of POOLS.
        seconds: measured seconds there.
        srcs: sources; pytest is given those named *_test.py.
        deps: what they import.
        gpus: GPUs taken; 0 on a pool without GPU.
        covers: claims vouched for.
        cadence: how often it runs.
        level: "layer", "e2e", "perf" or "unit".
        skipped_on: dict from each pool where it skips itself, or would, to the reason.
        tags: further tags.
        env: further environment of the test.
        **kwargs: passed on to py_test.
    """
    py_test(
        name = name,
        size = _first_at_least(_SIZES, seconds, "enormous"),
        timeout = _first_at_least(_TIMEOUTS, seconds * _HEADROOM, "eternal"),
        srcs = srcs + ["//testing/harness:main.py"],
        args = ["$(rootpath %s)" % src for src in srcs if src.endswith("_test.py")],
        env = dict(
            env,
            # One core a test, as Bazel counts: threads for each core in each test only wait in turn.
            OMP_NUM_THREADS = "1",
            OPENBLAS_NUM_THREADS = "1",
            PLUMBLINE_ARCH = POOLS[pool].arch,
            PLUMBLINE_GPUS = str(gpus),
            PLUMBLINE_POOL = pool,
            # What one test leaves beside a wheel, a later one would find.
            PYTHONDONTWRITEBYTECODE = "1",
        ),
        exec_properties = {"test.Pool": pool},
        main = "//testing/harness:main.py",
        python_version = "PY3",
        tags = pool_tags(
            cadence = cadence,
            covers = covers,
            gpus = gpus,
            level = level,
            pool = pool,
            seconds = seconds,
            skipped_on = skipped_on,
        ) + tags,
        deps = deps + ["//testing/harness:runner"],
        **kwargs
    )
