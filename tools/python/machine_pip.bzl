"""The machine's own pip in place of the one that rules_python 0.22.1 brings.

That one is pip 22.3.1 with setuptools 60, which do not start under Python 3.12 or later. A private
Bazel of tools/bazel overrides both repositories with Debian's pip, so these serve only machines that
have a Bazel already.
"""

# Debian 12 has 23.0 for its python 3.11; every python of 3.12 or later brings one that it can run.
_OLDEST = (22, 3)

# Where pip can lie: importable, or as the wheel that python or Debian keeps for new environments.
_FIND = """\
import glob, importlib.util, os, sys, sysconfig
spec = importlib.util.find_spec("pip")
if spec and spec.origin:
    import pip
    print(pip.__version__, os.path.dirname(spec.origin))
else:
    folders = [os.path.join(sysconfig.get_path("stdlib"), "ensurepip", "_bundled"), "/usr/share/python-wheels"]
    wheels = [path for folder in folders for path in glob.glob(folder + "/pip-*.whl")]
    versions = [(os.path.basename(path).split("-")[1], path) for path in wheels]
    if versions:
        print(*max(versions, key = lambda pair: [int(part) for part in pair[0].split(".")]))
"""

_BUILD = """\
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "lib",
    srcs = glob(["**/*.py"]),
    data = glob(["**/*"], exclude = ["**/*.py", "**/*.pyc", "**/* *", "BUILD.bazel", "WORKSPACE"]),
    imports = ["."],
    visibility = ["//visibility:public"],
)
"""

def _machine_pip_impl(ctx):
    python = ctx.path(Label("@local_python//:python3"))
    found = ctx.execute([python, "-I", "-c", _FIND]).stdout.strip()
    if not found:
        fail("this machine's python3 has no pip: install it (Debian: python3-pip), or set PLUMBLINE_PYTHON to one that has")
    version, place = found.split(" ", 1)
    if tuple([int(part) for part in version.split(".")[:2]]) < _OLDEST:
        fail("pip %s at %s is too old, wanted %d.%d or newer: set PLUMBLINE_PYTHON to a python that has one" % ((version, place) + _OLDEST))
    if place.endswith(".whl"):
        ctx.extract(place, type = "zip")
    else:
        ctx.symlink(place, "pip")
    ctx.file("BUILD.bazel", _BUILD)

machine_pip = repository_rule(
    implementation = _machine_pip_impl,
    doc = "A repository `pypi__pip` as rules_python wants it, of the pip that this machine has.",
    local = True,
)

def _pkg_resources_impl(ctx):
    # All that rules_python's wheel installer asks of setuptools.
    ctx.file("pkg_resources/__init__.py", "from pip._vendor.packaging.requirements import Requirement\n")
    ctx.file("BUILD.bazel", _BUILD)

pkg_resources = repository_rule(
    implementation = _pkg_resources_impl,
    doc = "A repository `pypi__setuptools` that holds just what rules_python uses of it.",
)
