"""Labels of our own for third-party packages, so that one flag says where they come from."""

def third_party(*, name):
    """A package of requirements.in, as `//tools/pip:NAME`.

    It is a flag that holds a label, set for all packages at once by the configs of sources.bazelrc:
    `directories`, one folder a wheel (the default, quick on one machine); `packed`, one file a wheel
    (for remote execution without an image); `files`, every file of the wheel; `image`, nothing,
    because the executor's python holds it. A flag, and not an alias with select(), so that `bazel query` ends here: it follows
    every branch, and would download each wheel of the lock for a question about our own targets.

    Args:
        name: the package's name in the lock, with `_` for `-`.
    """
    native.label_flag(
        name = name,
        build_setting_default = ":held_by_image",
        # Built only where something needs it: `bazel build //...` must not fetch GPU wheels.
        tags = ["manual"],
    )
