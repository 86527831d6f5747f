"""What a user's folder can be wrong in; both are said without a traceback."""

# Of a checkpoint of another model all tensors are wrong, each kind in its own way.
SHOWN = 100
# What Python raises over a value of another type or size than a key's, where no reader looked.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)


class ModelConfigError(ValueError):
    """config.json, or another of the folder's settings, says something that no model here is."""


class CheckpointError(ValueError):
    """The folder's tensors are not those that the model of its config.json has.

    Attributes:
        problems: each one a sentence; the message has the first SHOWN.
    """

    def __init__(self, where: str, problems: list[str]) -> None:
        self.problems = problems
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        listed = "".join(f"\n  - {problem}" for problem in problems[:SHOWN])
        if len(problems) > SHOWN:
            listed += f"\n  - and {len(problems) - SHOWN} more"
        super().__init__(
            f"the checkpoint in '{where}' does not fit its config.json, {count}:{listed}\n"
            f"Correct config.json, or download or write the checkpoint again."
        )
