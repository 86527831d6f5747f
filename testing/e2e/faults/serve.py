"""`python -m layers.serving`, with the fault that the environment names planted into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from layers.serving.main import main as serve
from testing.e2e.faults import text_faults  # noqa: F401 they register themselves
from testing.e2e.faults.fault import FAULTS, VARIABLE


def main(arguments: Sequence[str]) -> int:
    """Serves; arguments and result as of `layers.serving.main.main`."""
    name = os.environ[VARIABLE]
    if name in FAULTS:
        # Of a detokenizer, which is forked off this process. The others' modules need torch, and
        # are planted by the loader, where a rank has it.
        FAULTS[name].plant()
        return serve(arguments)
    return serve([*arguments, "--loader", "testing.e2e.faults.loader:load"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
