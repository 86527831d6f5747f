"""Makes the claims of //testing:claims.bzl visible in the target graph, a target each.

`bazel query` then answers what is registered and what it demands, and so does any tool that reads
the graph, without loading .bzl files. A target of rule class `coverage_claim` is all there is to
it: other workspaces register claims in the same way.
"""

load("//testing:pools.bzl", "CADENCES", "POOLS")
load("//testing/private:spelling.bzl", "suggestion")

_LEVELS = ["e2e", "layer", "perf"]

def _coverage_claim_impl(_ctx):
    return []

coverage_claim = rule(
    implementation = _coverage_claim_impl,
    doc = "A behaviour that tests vouch for by a tag `covers:CLAIM`. It builds nothing.",
    attrs = {
        "claim": attr.string(mandatory = True, doc = "Its name, as tests cover it."),
        "demands": attr.string_list(
            mandatory = True,
            allow_empty = False,
            doc = "ARCH:CADENCE of each cell that some test has to cover, such as sm90:per-commit.",
        ),
        "level": attr.string(mandatory = True, values = _LEVELS, doc = "The kind of test that can show it."),
        "sentence": attr.string(mandatory = True, doc = "What holds if its tests pass."),
    },
)

def _demand_problem(demand):
    archs = sorted({pool.arch: None for pool in POOLS.values()})
    arch, _, cadence = demand.partition(":")
    if arch not in archs:
        return "demands '%s', and no pool is of architecture '%s': %s" % (demand, arch, suggestion(arch, archs))
    if cadence not in CADENCES:
        return "demands '%s', and there is no cadence '%s': %s" % (demand, cadence, suggestion(cadence, CADENCES))
    return None

def claim_problems(name, claim):
    """What is wrong with the registration of a claim.

    Args:
        name: the claim's name.
        claim: its struct: sentence, level and demands.

    Returns:
        A list of sentences, each with what to write instead; empty if all is well.
    """
    problems = []
    if not claim.sentence.strip():
        problems.append("has no sentence: write what holds if its tests pass")
    if claim.level not in _LEVELS:
        problems.append("has level '%s': %s" % (claim.level, suggestion(claim.level, _LEVELS)))
    if not claim.demands:
        problems.append("demands nothing: write demands = [\"cpu:per-commit\"], or what has to be covered")
    problems += [problem for problem in [_demand_problem(demand) for demand in claim.demands] if problem]
    return ["claim '%s' %s" % (name, problem) for problem in problems]

def coverage_claims(name, claims):
    """Declares one coverage_claim a claim, named as it is.

    Args:
        name: of the call, for tools that read BUILD files; no target has it.
        claims: dict from name to struct(sentence, level, demands).
    """
    problems = []
    for name, claim in claims.items():
        problems += claim_problems(name, claim)
    if problems:
        fail("//testing:claims.bzl:\n  - %s" % "\n  - ".join(problems))
    for name, claim in claims.items():
        coverage_claim(
            name = name,
            claim = name,
            demands = claim.demands,
            level = claim.level,
            sentence = claim.sentence,
        )
