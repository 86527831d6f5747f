"""Labels of our own for third-party packages, so that one flag says where they come from."""

load("@rules_python//python:defs.bzl", "py_library")

def third_party(*, name, **kwargs):
    """A package of the lock, as `//tools/pip:NAME`.

    Where it comes from is the flag `--//tools/pip:source`: `directories`, one folder a wheel (the
    default, quick on one machine); `files`, every file of the wheel (what remote execution needs
    without an image); `image`, nothing, because the executor's python already holds it.

    Args:
        name: the package's name in the lock, with `_` for `-`.
        **kwargs: passed on to the alias.
    """
    native.alias(
        name = name,
        actual = select({
            ":from_files": "@pip_%s//:pkg" % name,
            ":from_image": ":held_by_image",
            "//conditions:default": "@pip_%s//:directory" % name,
        }),
        # Built only where something needs it: `bazel build //...` must not fetch GPU wheels.
        tags = ["manual"],
        **kwargs
    )

def gpu_only(*, name, packages, **kwargs):
    """Packages that only a run for a GPU pool takes, so that a CPU run fetches none of them.

    Args:
        name: the label's name.
        packages: names of `third_party` labels in this package.
        **kwargs: passed on to the library.
    """
    py_library(
        name = name,
        deps = select({
            ":gpu": [":" + package for package in packages],
            "//conditions:default": [],
        }),
        tags = ["manual"],
        **kwargs
    )
