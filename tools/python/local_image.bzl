"""What the machine's python holds, as an input of the tests that use it (`--config=image`).

Without it, a test that passed with yesterday's torch would be answered from the cache after an upgrade.
It is read again when Bazel's server starts, and when PATH or PLUMBLINE_PYTHON changes.
"""

_LIST = """\
import importlib.metadata
for name, version in sorted({(d.name or "", d.version) for d in importlib.metadata.distributions()}):
    print(name, version)
"""

def _local_image_impl(ctx):
    python = ctx.path(Label("@local_python//:python3"))
    listed = ctx.execute([python, "-c", _LIST])
    if listed.return_code:
        fail("cannot list the packages of this machine's python3: %s" % listed.stderr)
    smi = ctx.which("nvidia-smi")
    query = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    ctx.file("image.txt", listed.stdout + (ctx.execute(query).stdout if smi else "no GPU\n"))
    ctx.file("BUILD.bazel", "exports_files([\"image.txt\"], visibility = [\"//visibility:public\"])\n")

local_image = repository_rule(
    implementation = _local_image_impl,
    doc = "A file image.txt of the packages and the GPU driver that this machine has.",
    environ = ["PATH", "PLUMBLINE_PYTHON"],
    local = True,
)
