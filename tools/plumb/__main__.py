"""`python -m tools.plumb` and `bazel run //tools/plumb`."""

from tools.plumb.cli import main

if __name__ == "__main__":
    main()
