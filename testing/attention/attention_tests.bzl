"""attention_tests: the tests of dense or of windowed attention, a target for each backend.

The package holds torch_test.py, triton_test.py, flashinfer_test.py, flashinfer_extend_test.py and
flashinfer_kinds_test.py; the last runs the layer that PLUMBLINE_LAYER names, all of them where it is
unset.
"""

load("//testing:defs.bzl", "layer_test")

_DEPS = [
    "//testing/attention:attention_cases",
    "//testing/harness/attention:backends",
]

_MODES = ["decode", "draft", "extend"]

def attention_tests(*, name, claims, flashinfer_kinds):
    """Declares the tests and a suite NAME of them.

    Args:
        name: the suite.
        claims: what the tests vouch for starts with it: CLAIMS.BACKEND.MODE.numerics.
        flashinfer_kinds: layers of //testing/attention:attention_cases for which FlashInfer compiles
            kernels of their own, each a target by night: CLAIMS.flashinfer.KIND.numerics.
    """
    _test("torch", claims, pools = ["cpu", "h100"], seconds = {"cpu": 20, "h100": 30}, shard_count = 2)
    _test("triton", claims, seconds = {"h100": 70}, shard_count = 4)

    # Its prompts are compiled from another template, which takes a minute longest.
    _test("flashinfer", claims, modes = ["decode", "draft"], seconds = {"h100": 110})
    _test("flashinfer_extend", claims, backend = "flashinfer", modes = ["extend"], seconds = {"h100": 170})
    for kind in flashinfer_kinds:
        layer_test(
            name = "flashinfer_%s_test" % kind,
            srcs = ["flashinfer_kinds_test.py"],
            cadence = "nightly",
            covers = ["%s.flashinfer.%s.numerics" % (claims, kind)],
            env = {"PLUMBLINE_LAYER": kind},
            pools = ["h100"],
            # What the templates took to compile beside twenty other tests.
            seconds = {"h100": 180},
            deps = _DEPS,
        )
    native.test_suite(
        name = name,
        tests = ["%s_test" % test for test in ["torch", "triton", "flashinfer", "flashinfer_extend"]] +
                ["flashinfer_%s_test" % kind for kind in flashinfer_kinds],
    )

def _test(name, claims, backend = None, modes = _MODES, pools = ["h100"], **kwargs):
    layer_test(
        name = "%s_test" % name,
        srcs = ["%s_test.py" % name],
        covers = ["%s.%s.%s.numerics" % (claims, backend or name, mode) for mode in modes],
        pools = pools,
        deps = _DEPS,
        **kwargs
    )
