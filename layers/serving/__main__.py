"""`python -m layers.serving --model DIR`."""

from __future__ import annotations

import sys

from layers.serving.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
