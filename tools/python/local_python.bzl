"""The machine's own python3 as the toolchain, the same one that installs the wheels.

rules_python's default takes whichever python3 the action's PATH holds, which need not be the
interpreter that chose the wheels; a wheel for 3.13 under a python of 3.11 fails at import.
"""

_MINIMUM = (3, 11)

_PROBE = "import sys; print(sys.executable); print(*sys.version_info[:3], sep='.')"

# The comment makes a wheel be installed anew when what installs it changes.
_WRAPPER = """\
#!/bin/sh
# python {version}, install_wheel.py {digest}
exec "{python}" "{install}" "$@"
"""

_BUILD = """\
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files([
    "python3",
    "version.txt",
])

py_runtime(
    name = "runtime",
    bootstrap_template = "@plumbline//tools/python:start.sh",
    # An action's PATH need not hold the python3 that chose the wheels.
    interpreter_path = "{python}",
    python_version = "PY3",
    stub_shebang = "#!/bin/sh",
)

py_runtime_pair(
    name = "runtimes",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtimes",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _find(ctx):
    asked = ctx.os.environ.get("PLUMBLINE_PYTHON")
    name = asked or "python3"
    found = ctx.which(name) if "/" not in name else ctx.path(name)
    if not found or not found.exists:
        fail("no python at '%s'%s: install python3 (3.11 or newer) or set PLUMBLINE_PYTHON to one" % (
            name,
            " (from PLUMBLINE_PYTHON)" if asked else " on PATH",
        ))
    return found

def _local_python_impl(ctx):
    found = _find(ctx)
    probe = ctx.execute([found, "-I", "-c", _PROBE])
    if probe.return_code:
        fail("%s does not run: %s" % (found, probe.stderr))

    # sys.executable, since `found` may be a launcher that chooses by folder (pyenv's shims do).
    python, version = probe.stdout.strip().split("\n")
    if tuple([int(part) for part in version.split(".")])[:2] < _MINIMUM:
        fail("%s is python %s, wanted 3.11 or newer: set PLUMBLINE_PYTHON to a newer one" % (python, version))

    install = ctx.path(Label("//tools/python:install_wheel.py"))
    ctx.file("python3", executable = True, content = _WRAPPER.format(
        digest = hash(ctx.read(install)),
        install = install,
        python = python,
        version = version,
    ))
    ctx.file("BUILD.bazel", _BUILD.format(python = python))

    # An input of every test: the path stays when the python behind it is upgraded.
    ctx.file("version.txt", version + "\n")

local_python = repository_rule(
    implementation = _local_python_impl,
    doc = "Registers the python3 of PATH (or of PLUMBLINE_PYTHON) as the Python toolchain.",
    environ = ["PATH", "PLUMBLINE_PYTHON"],
    local = True,
)
