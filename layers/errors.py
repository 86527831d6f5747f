"""Errors that a user of the layers can act on."""


class WeightLoadError(ValueError):
    """A checkpoint and a model do not fit: the message names tensor, value seen and wanted."""
