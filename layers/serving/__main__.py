"""`python -m layers.serving --model DIR`."""

from __future__ import annotations

import sys

from layers.serving.workers.process import hold_signals


def _run() -> int:
    # What is imported takes a while, in which a signal would end Python half-way.
    hold_signals()
    from layers.serving.main import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_run())
