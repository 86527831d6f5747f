"""Quantised variants of a tiny checkpoint, written when something needs them."""

_UNCHANGED = ["generation_config.json", "tokenizer.json", "tokenizer_config.json"]

# As FILES of quantise.py.
_WRITTEN = _UNCHANGED + [
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
]

def checkpoint(*, name, methods):
    """A filegroup NAME of the committed folder, and one NAME_METHOD of each variant's.

    Args:
        name: the folder, a base.
        methods: those of encode.py.
    """
    files = ["%s/%s" % (name, file) for file in _UNCHANGED + ["config.json", "model.safetensors"]]
    native.filegroup(
        name = name,
        srcs = files,
    )
    for method in methods:
        variant = "%s_%s" % (name, method)
        native.genrule(
            name = variant,
            srcs = files + ["%s/calibration.json" % name],
            outs = ["%s/%s" % (variant, file) for file in _WRITTEN],
            cmd = "$(execpath :quantise) $$(dirname $(execpath %s/config.json)) %s $(RULEDIR)/%s" % (name, method, variant),
            tools = [":quantise"],
        )
