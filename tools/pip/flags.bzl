"""The two build settings behind the third-party labels."""

def _string_flag_impl(ctx):
    value = ctx.build_setting_value
    if value not in ctx.attr.values:
        fail("--%s=%s: wanted one of %s" % (str(ctx.label).lstrip("@"), value, ", ".join(ctx.attr.values)))
    return []

string_flag = rule(
    implementation = _string_flag_impl,
    doc = "A flag of the command line that takes one of `values`.",
    attrs = {"values": attr.string_list(mandatory = True, doc = "what the flag may be")},
    build_setting = config.string(flag = True),
)
