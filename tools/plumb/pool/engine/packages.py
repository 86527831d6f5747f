"""Prints the import path of the packages that a pool's own processes need, as a JSON list."""

import json
import sys
from pathlib import Path


def main() -> None:
    """Folders of packages themselves, without links of a runfiles tree that may be rebuilt."""
    found = [Path(entry).resolve() for entry in sys.path if entry.endswith("site-packages")]
    print(json.dumps([str(path) for path in dict.fromkeys(found) if path.is_dir()]))


if __name__ == "__main__":
    main()
