"""What is wrong with a test's declaration, found while the BUILD file loads."""

load("//testing:claims.bzl", "CLAIMS")
load("//testing:pools.bzl", "CADENCES", "GPU_COUNTS", "POOLS")
load("//testing/private:spelling.bzl", "suggestion")

# Tags that the macro writes from its arguments; by hand they could contradict them.
_RESERVED = ["cadence:", "covers:", "gpus:", "level:", "machine:", "resources:", "seconds:", "skipped_on:", "sm:", "suite:"]

# Environment that the macro sets, from its arguments or for every test alike.
_OWN_ENV = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PLUMBLINE_ARCH",
    "PLUMBLINE_GPUS",
    "PLUMBLINE_POOL",
    "PYTHONDONTWRITEBYTECODE",
]

_WANTED = {
    "dict": "dict from pool to seconds",
    "int": "whole number",
    "labels": "list of labels, or one with select()",
    "list": "list of strings",
    "reasons": "dict from pool to the reason",
    "string": "string",
}

def _is_of_kind(value, kind):
    if kind == "labels" and type(value) == "select":
        return True
    if kind in ["labels", "list"]:
        return type(value) == "list" and not [v for v in value if type(v) != "string"]
    return type(value) == ("dict" if kind == "reasons" else kind)

def shape_problems(**arguments):
    """Which arguments are not of the kind that a macro takes, before anything looks inside them.

    Args:
        **arguments: name of the argument to (value, kind), kind being a key of _WANTED.

    Returns:
        A list of sentences; empty if all is well.
    """
    return [
        "%s = %r: wanted a %s" % (name, value, _WANTED[kind])
        for name, (value, kind) in arguments.items()
        if not _is_of_kind(value, kind)
    ]

def _repeated(names):
    return [name for i, name in enumerate(names) if name in names[:i]]

def _pool_problems(pools, seconds):
    problems = []
    if not pools:
        problems.append("pools is empty: name at least one of %s" % ", ".join(sorted(POOLS)))
    for pool in _repeated(pools):
        problems.append("pool '%s' is listed twice: keep one" % pool)
    for pool in pools:
        if pool not in POOLS:
            problems.append("unknown pool '%s': %s" % (pool, suggestion(pool, POOLS.keys())))
        elif pool not in seconds:
            problems.append("no seconds for pool '%s': add seconds = {\"%s\": N}, as measured there" % (pool, pool))
    for pool in seconds:
        if pool not in pools:
            problems.append("seconds for pool '%s', which pools does not list: add the pool or drop the seconds" % pool)
        elif type(seconds[pool]) != "int" or seconds[pool] < 1:
            problems.append("seconds for pool '%s' is %r: wanted a whole number of 1 or more" % (pool, seconds[pool]))
    return problems

def _skip_problems(skipped_on):
    problems = []
    for pool, reason in skipped_on.items():
        if pool not in POOLS:
            problems.append("skipped_on names unknown pool '%s': %s" % (pool, suggestion(pool, POOLS.keys())))
        if type(reason) != "string" or not reason.strip():
            problems.append("skipped_on gives no reason for pool '%s': write why the test would skip itself there" % pool)
    return problems

def _claim_problems(covers, levels):
    problems = []
    if not covers:
        problems.append("covers is empty: name the claims of //testing:claims.bzl that this test vouches for")
    for claim in _repeated(covers):
        problems.append("claim '%s' is listed twice: keep one" % claim)
    for claim in covers:
        if claim not in CLAIMS:
            problems.append("unknown claim '%s': %s" % (claim, suggestion(claim, CLAIMS.keys())))
        elif CLAIMS[claim].level not in levels:
            problems.append("claim '%s' needs a test of level %s: use %s" % (
                claim,
                CLAIMS[claim].level,
                "layer_test" if CLAIMS[claim].level == "layer" else "smoke_test",
            ))
    return problems

def tag_problems(tags):
    """What is wrong with tags added by hand.

    Args:
        tags: list of tags.

    Returns:
        A list of sentences, each with what to write instead; empty if all is well.
    """
    return [
        "tag '%s' is written by the macro: use the argument %s instead" % (tag, tag.split(":")[0])
        for tag in tags
        if [prefix for prefix in _RESERVED if tag.startswith(prefix)]
    ] + [
        "tag '%s' is written by the macro: use pools instead" % tag
        for tag in tags
        if tag in POOLS or tag == "gpu"
    ] + [
        "tag 'manual' hides a test from every run: give it cadence = \"nightly\" or \"labelled\", or delete it"
        for tag in tags
        if tag == "manual"
    ]

def keyword_problems(keywords):
    """What is wrong with the arguments that a macro passes on to py_test.

    Args:
        keywords: dict of them.

    Returns:
        A list of sentences; empty if all is well.
    """
    problems = [
        "%s = %r: the macro writes it, from pools, seconds and srcs" % (name, keywords[name])
        for name in ["args", "exec_properties", "main", "python_version", "size", "timeout"]
        if name in keywords
    ]
    env = keywords.get("env", {})
    if type(env) != "dict":
        return problems + ["env = %r: wanted a dict from variable to value" % (env,)]
    problems += [
        "env sets %s, which the macro sets: drop it" % name
        for name in env
        if name in _OWN_ENV
    ]
    return problems

def cadence_problems(cadence):
    """What is wrong with a macro's `cadence`: a list, empty if nothing is.

    Args:
        cadence: how often the test is to run, a string.

    Returns:
        A list of sentences, each with what to write instead.
    """
    if cadence in CADENCES:
        return []
    return ["unknown cadence '%s': %s" % (cadence, suggestion(cadence, CADENCES))]

def problems_of(*, name, srcs, covers, pools, seconds, deps, gpus, cadence, tags, levels, skipped_on = {}):
    """Every contradiction in the arguments of a test macro.

    Args:
        name: the test's name.
        srcs: its sources.
        covers: the claims it vouches for.
        pools: the pools it runs on.
        seconds: dict from pool to measured seconds.
        deps: what its sources import.
        gpus: how many GPUs it takes on a GPU pool, or None where unsaid.
        cadence: how often it runs.
        tags: tags added by hand.
        levels: the claim levels that this macro may cover.
        skipped_on: dict from each pool where it skips itself, or would, to the reason.

    Returns:
        A list of sentences, each with what to write instead; empty if all is well.
    """
    problems = shape_problems(
        cadence = (cadence, "string"),
        covers = (covers, "list"),
        deps = (deps, "labels"),
        name = (name, "string"),
        pools = (pools, "list"),
        seconds = (seconds, "dict"),
        skipped_on = (skipped_on, "reasons"),
        srcs = (srcs, "list"),
        tags = (tags, "list"),
    )
    if problems:
        return problems
    if not name.endswith("_test"):
        problems.append("name '%s' should end in _test" % name)
    if not [src for src in srcs if src.endswith("_test.py")]:
        problems.append("srcs holds no *_test.py: pytest would collect nothing")
    problems += _pool_problems(pools, seconds) + _skip_problems(skipped_on)
    problems += _claim_problems(covers, levels) + tag_problems(tags)
    if gpus != None and not [pool for pool in pools if pool in POOLS and POOLS[pool].gpu]:
        problems.append("gpus = %r, but no pool has a GPU: drop it or add a GPU pool" % gpus)
    if gpus != None and gpus not in GPU_COUNTS:
        problems.append("gpus = %r: wanted one of %s" % (gpus, GPU_COUNTS))
    return problems + cadence_problems(cadence)
