"""The vocabulary of tests: layer_test, smoke_test, unit_test, checkout_test, oracle_library.

    layer_test(
        name = "int8_linear_test",
        srcs = ["int8_linear_test.py"],
        covers = ["quant.int8_channel.linear.numerics"],
        pools = ["cpu", "h100"],
        seconds = {"cpu": 12, "h100": 20},
        deps = ["//layers/quantization:w8a8_int8", "//testing/oracles:int8"],
    )

declares int8_linear_test_cpu, int8_linear_test_h100 and a suite int8_linear_test of both. Every
contradiction stops the load with a sentence that says what to write instead.
"""

load("@rules_python//python:defs.bzl", "py_library")
load("//testing:pools.bzl", "POOLS")
load("//testing/private:checks.bzl", "cadence_problems", "keyword_problems", "problems_of", "shape_problems", "tag_problems")
load("//testing/private:pool_test.bzl", "pool_test")

def _tests_by_pool(*, macro, name, srcs, covers, pools, seconds, deps, gpus, cadence, level, levels, skipped_on, tags, manual = "", **kwargs):
    problems = problems_of(
        cadence = cadence,
        covers = covers,
        deps = deps,
        gpus = gpus,
        levels = levels,
        name = name,
        pools = pools,
        seconds = seconds,
        skipped_on = skipped_on,
        srcs = srcs,
        tags = tags,
    ) + keyword_problems(kwargs)
    if problems:
        fail("%s //%s:%s:\n  - %s" % (macro, native.package_name(), name, "\n  - ".join(problems)))
    if type(manual) != "string":
        fail("%s //%s:%s:\n  - manual = %r: wanted why no run by pattern shall have this test" % (macro, native.package_name(), name, manual))
    hidden = ["manual", "manual_because:" + manual] if manual else []
    for pool in pools:
        pool_test(
            name = "%s_%s" % (name, pool),
            cadence = cadence,
            covers = covers,
            deps = deps,
            gpus = (gpus or 1) if POOLS[pool].gpu else 0,
            level = level,
            pool = pool,
            seconds = seconds[pool],
            skipped_on = skipped_on,
            srcs = srcs,
            tags = tags + hidden,
            **kwargs
        )
    native.test_suite(
        name = name,
        # A suite that a pattern finds runs what it lists, manual or not.
        tags = hidden[:1],
        tests = ["%s_%s" % (name, pool) for pool in pools],
    )

def layer_test(*, name, srcs, covers, pools, seconds, deps, gpus = None, cadence = "per-commit", skipped_on = {}, tags = [], **kwargs):
    """A test of a real layer, loaded as a checkpoint is loaded, against an oracle.

    Args:
        name: ends in _test; one target NAME_POOL a pool, and a suite NAME.
        srcs: pytest files named *_test.py, and helpers.
        covers: claims of //testing:claims.bzl, of level "layer".
        pools: keys of //testing:pools.bzl.
        seconds: dict from each pool to the seconds measured there.
        deps: what the sources import.
        gpus: GPUs of one host taken on a GPU pool (1 where unsaid).
        cadence: "per-commit", "labelled" or "nightly".
        skipped_on: dict from a pool to why the test skips itself there, or would. Where `pools` has
            it too, the test runs and vouches for nothing: what its machines lack is reported.
        tags: further tags; those that the arguments stand for are refused.
        **kwargs: passed on to py_test, such as data or shard_count.
    """
    if "level" in kwargs:
        fail("layer_test %s: level = %r: drop it, as a layer_test is of level \"layer\"; smoke_test has others" % (name, kwargs["level"]))
    _tests_by_pool(
        cadence = cadence,
        covers = covers,
        deps = deps,
        gpus = gpus,
        level = "layer",
        levels = ["layer"],
        macro = "layer_test",
        name = name,
        pools = pools,
        seconds = seconds,
        skipped_on = skipped_on,
        srcs = srcs,
        tags = tags,
        **kwargs
    )

def smoke_test(*, name, srcs, covers, pools, seconds, deps, level = "e2e", gpus = None, cadence = "per-commit", manual = "", skipped_on = {}, tags = [], **kwargs):
    """A test that starts a server or runs a whole model and asserts an end-to-end figure.

    Args:
        name: ends in _test; one target NAME_POOL a pool, and a suite NAME.
        srcs: pytest files named *_test.py, and helpers.
        covers: claims of //testing:claims.bzl, of level "e2e" or "perf".
        pools: keys of //testing:pools.bzl.
        seconds: dict from each pool to the seconds measured there.
        deps: what the sources import.
        level: "e2e" or "perf".
        gpus: GPUs of one host taken on a GPU pool (1 where unsaid).
        cadence: "per-commit", "labelled" or "nightly".
        manual: why no run by pattern shall have this test, which is then run by its name alone.
        skipped_on: dict from a pool to why the test skips itself there, or would. Where `pools` has
            it too, the test runs and vouches for nothing: what its machines lack is reported.
        tags: further tags; those that the arguments stand for are refused.
        **kwargs: passed on to py_test.
    """
    if level not in ["e2e", "perf"]:
        fail("smoke_test %s: level = '%s', wanted \"e2e\" or \"perf\"; a layer's test is a layer_test" % (name, level))
    _tests_by_pool(
        cadence = cadence,
        covers = covers,
        deps = deps,
        gpus = gpus,
        level = level,
        levels = ["e2e", "perf"],
        macro = "smoke_test",
        manual = manual,
        name = name,
        pools = pools,
        seconds = seconds,
        skipped_on = skipped_on,
        srcs = srcs,
        tags = tags,
        **kwargs
    )

def unit_test(*, name, srcs, deps = [], seconds = 5, cadence = "per-commit", tags = [], **kwargs):
    """A test of an oracle, of the harness or of a tool: on the CPU, with no claim on a layer.

    Args:
        name: the target's name.
        srcs: pytest files named *_test.py, and helpers.
        deps: what they import.
        seconds: seconds measured on two cores.
        cadence: a member of CADENCES; "nightly" for what takes minutes.
        tags: further tags.
        **kwargs: passed on to py_test.
    """
    problems = shape_problems(
        cadence = (cadence, "string"),
        deps = (deps, "list"),
        name = (name, "string"),
        seconds = (seconds, "int"),
        srcs = (srcs, "list"),
        tags = (tags, "list"),
    )
    if not problems:
        problems = tag_problems(tags) + keyword_problems(kwargs) + cadence_problems(cadence) + [
            "%s is no argument of a unit_test: it runs on the CPU, and vouches for no claim" % argument
            for argument in ["covers", "gpus", "level", "pool", "pools", "skipped_on"]
            if argument in kwargs
        ]
        if seconds < 1:
            problems.append("seconds = %d: wanted a whole number of 1 or more" % seconds)
        if not [src for src in srcs if src.endswith("_test.py")]:
            problems.append("srcs holds no *_test.py: pytest would collect nothing")
    if problems:
        fail("unit_test //%s:%s:\n  - %s" % (native.package_name(), name, "\n  - ".join(problems)))
    pool_test(
        name = name,
        cadence = cadence,
        deps = deps,
        pool = "cpu",
        seconds = seconds,
        srcs = srcs,
        tags = tags,
        **kwargs
    )

def checkout_test(*, name, tags = [], **kwargs):
    """A unit_test that reads the checkout itself or runs its tools/bazel: style, the graph's shape.

    What it reads are no declared inputs, so that no earlier result says anything: it runs each time.

    Args:
        name: the target's name.
        tags: further tags.
        **kwargs: passed on to unit_test.
    """
    problems = shape_problems(tags = (tags, "list")) + [
        "env_inherit = %r: the macro writes it; use env" % (kwargs[argument],)
        for argument in ["env_inherit"]
        if argument in kwargs
    ]
    if problems:
        fail("checkout_test //%s:%s:\n  - %s" % (native.package_name(), name, "\n  - ".join(problems)))
    unit_test(
        name = name,
        # tools/bazel finds its Bazel, and pip its settings, as they do for the user.
        env_inherit = [
            "HOME",
            "PATH",
            "PIP_CONFIG_FILE",
            "PIP_EXTRA_INDEX_URL",
            "PIP_FIND_LINKS",
            "PIP_INDEX_URL",
            "XDG_CACHE_HOME",
        ],
        tags = tags + [
            "external",
            # A remote worker has no checkout.
            "no-remote",
        ],
        **kwargs
    )

def oracle_library(*, name, srcs, deps = [], **kwargs):
    """A library that says what the answer should be, and shares no code with what is tested.

    Args:
        name: the target's name.
        srcs: its sources.
        deps: other oracles and numerical packages. A layer or a kernel package is refused here by
            label; //testing/graph:independence_test looks through the whole closure.
        **kwargs: passed on to py_library.
    """
    problems = shape_problems(
        deps = (deps, "list"),
        name = (name, "string"),
        srcs = (srcs, "list"),
        tags = (kwargs.get("tags", []), "list"),
    )
    if problems:
        fail("oracle_library //%s:%s:\n  - %s" % (native.package_name(), name, "\n  - ".join(problems)))
    for dep in deps:
        refused = ["flashinfer_python", "sglang_kernel", "triton"]
        if native.package_name() != "testing/oracles/models":
            # Reference models are trained, and so are of torch.
            refused.append("torch")
        if dep.startswith(("//layers", "@//layers", "@plumbline//layers", "@@//layers")) or dep.split(":")[-1] in refused:
            fail("oracle_library %s depends on %s: an oracle shares no code with the layer; write it from the format's definition" % (name, dep))
    py_library(
        name = name,
        srcs = srcs,
        tags = kwargs.pop("tags", []) + ["oracle"],
        deps = deps,
        **kwargs
    )
