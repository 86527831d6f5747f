"""`python -m tools.plumb` and `bazel run //tools/plumb`."""

import sys

if __name__ == "__main__":
    try:
        # Most of a short run is this import, and Ctrl-C may fall into it.
        from tools.plumb.cli import main

        main()
    except KeyboardInterrupt:
        print("plumb: interrupted", file=sys.stderr)
        sys.exit(8)
