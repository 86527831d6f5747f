"""A wheel as one file, for executors that share no disk with this machine."""

def _packed_wheel_impl(ctx):
    pack = ctx.actions.declare_file("wheel.pack")
    digest = ctx.actions.declare_file("wheel.pack.sha256")
    ctx.actions.run(
        executable = ctx.executable._pack,
        arguments = [ctx.file.folder.path, pack.path, digest.path],
        # The wheel names the folder's content in the action's key, where a folder would not.
        inputs = [ctx.file.folder, ctx.file.wheel],
        outputs = [pack, digest],
        mnemonic = "PackWheel",
        progress_message = "Packing %{label}",
        # A folder of sources arrives empty at a remote executor.
        execution_requirements = {"no-cache": "1", "no-remote": "1"},
    )
    return DefaultInfo(files = depset([pack, digest]))

packed_wheel = rule(
    implementation = _packed_wheel_impl,
    doc = "The files wheel.pack and wheel.pack.sha256 of a wheel's folder; //tools/python:start.sh unpacks them.",
    attrs = {
        "folder": attr.label(mandatory = True, allow_single_file = True, doc = "site-packages, byte-code included"),
        "wheel": attr.label(mandatory = True, allow_single_file = [".whl"], doc = "what the folder was unpacked from"),
        "_pack": attr.label(default = "//tools/pip:pack", executable = True, cfg = "exec"),
    },
)
