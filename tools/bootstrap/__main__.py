"""`python3 -m tools.bootstrap`: makes the private Bazel, or buildbox, if there is none.

Prints where it is.
"""

import argparse
import signal
import sys
from pathlib import Path

from tools.bootstrap import apt_sources
from tools.bootstrap.buildbox import BUILDBOX
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.install import BAZEL, Bootstrap, Layout
from tools.bootstrap.machine import default_home, require_debian
from tools.bootstrap.progress import Progress

_INTERRUPTED = 130


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; see --help."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.bootstrap", description=__doc__)
    parser.add_argument(
        "--home",
        type=lambda text: Path(text).absolute(),
        help="the cache folder (default: ${XDG_CACHE_HOME:-~/.cache}/plumbline/bazel); "
        "a prefix runs only where it was made",
    )
    parser.add_argument(
        "--buildbox",
        action="store_true",
        help="instead of Bazel, the programs of a remote worker, in the folder beside",
    )
    parser.add_argument("--suite", default="testing", help="Debian suite (default: %(default)s)")
    parser.add_argument(
        "--print-mirror", action="store_true", help="only print the mirror that would be used"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="make it anew; stop its servers before (tools/bazel shutdown)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Returns 0, or the exit status of the error (see errors.py), 130 if interrupted."""
    options = parse(arguments)
    # Ended politely, apt-get ends with us; it would go on, holding its lock, otherwise.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.print_mirror:
            print(apt_sources.archive_mirrors(apt_sources.read_sources(), require_debian())[0])
            return 0
        product = BUILDBOX if options.buildbox else BAZEL
        home = options.home or default_home().with_name(product.name.lower())
        bootstrap = Bootstrap(Layout(home), options.suite, Progress(), product)
        prefix = bootstrap.install(options.force)
    except BootstrapError as error:
        print(f"\ntools/bootstrap: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("\ntools/bootstrap: interrupted; what was fetched is kept.", file=sys.stderr)
        return _INTERRUPTED
    print(prefix)
    return 0


if __name__ == "__main__":
    sys.exit(main())
