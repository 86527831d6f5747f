"""Writes values computed while loading as JSON, so that pytest can test Starlark functions."""

def _starlark_values_impl(ctx):
    file = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(file, ctx.attr.json)
    return [DefaultInfo(files = depset([file]), runfiles = ctx.runfiles([file]))]

_starlark_values = rule(
    implementation = _starlark_values_impl,
    attrs = {"json": attr.string(mandatory = True)},
)

def starlark_values(*, name, values, **kwargs):
    """Declares NAME.json, holding `values`.

    Args:
        name: the target's name.
        values: anything that json.encode takes.
        **kwargs: passed on to the rule.
    """
    _starlark_values(
        name = name,
        json = json.encode_indent(values),
        **kwargs
    )
