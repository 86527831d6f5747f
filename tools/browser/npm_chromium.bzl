"""A headless Chromium out of the npm package @sparticuz/chromium, for tests that look at a page.

The package is made for machines that hold nothing: it brings the browser, the libraries that it
needs beyond libc and libgcc_s, and a font, each packed by Brotli, which node unpacks. So a test
runs on a new machine, as root or not, without a browser or a package of the system's.
"""

load("//tools/lint:npm_binary.bzl", "PACKAGE_ATTRS", "extract_package", "node_and_npm")

_BUILD = """\
filegroup(
    name = "chromium",
    srcs = glob(["browser/**"]),
    visibility = ["//visibility:public"],
)
"""

_UNPACK = """\
const zlib = require("zlib"), fs = require("fs"), path = require("path");
for (const name of ["chromium", "al2023.tar", "fonts.tar"]) {
  const packed = fs.readFileSync(path.join("package", "bin", name + ".br"));
  fs.writeFileSync(name, zlib.brotliDecompressSync(packed));
}
fs.chmodSync("chromium", 0o755);
"""

# The package's own names folders of the service that it was made for.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir></fontconfig>
"""

def _npm_chromium_impl(ctx):
    extract_package(ctx)
    node, _ = node_and_npm(ctx)
    ctx.file("unpack.js", _UNPACK)
    unpacked = ctx.execute(node + ["unpack.js"], timeout = 600)
    if unpacked.return_code:
        fail("%s@%s cannot be unpacked:\n%s" % (ctx.attr.package, ctx.attr.version, unpacked.stderr))
    ctx.execute(["mkdir", "-p", "browser"])
    ctx.execute(["mv", "chromium", "browser/chromium"])
    ctx.extract("al2023.tar", output = "browser")
    ctx.extract("fonts.tar", output = "browser/etc")
    ctx.file("browser/etc/fonts.conf", _FONTS, executable = False)
    for left in ["al2023.tar", "fonts.tar", "package", "unpack.js"]:
        ctx.delete(left)
    for wanted in ["browser/chromium", "browser/lib/libnss3.so", "browser/etc/fonts"]:
        if not ctx.path(wanted).exists:
            fail("%s@%s holds no %s" % (ctx.attr.package, ctx.attr.version, wanted))
    ctx.file("BUILD.bazel", _BUILD)

npm_chromium = repository_rule(
    implementation = _npm_chromium_impl,
    doc = "`@NAME//:chromium`: the folder browser/ with chromium, lib/ and etc/fonts.conf.",
    attrs = PACKAGE_ATTRS,
)
