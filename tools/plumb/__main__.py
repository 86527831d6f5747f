"""`python -m tools.plumb` and `bazel run //tools/plumb`."""

import os
import sys
from typing import NoReturn


def _end(ended: SystemExit) -> NoReturn:
    """Ends the process without putting away a graph's million objects, one by one."""
    if isinstance(ended.code, int):
        # What cannot be written fails as it does in any program.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)
    raise ended


if __name__ == "__main__":
    try:
        try:
            # Most of a short run is this import, and Ctrl-C may fall into it.
            from tools.plumb.cli import main

            main()
        except SystemExit as ended:
            _end(ended)
    except KeyboardInterrupt:
        print("plumb: interrupted", file=sys.stderr)
        sys.exit(8)
