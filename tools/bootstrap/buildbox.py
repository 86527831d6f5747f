"""The programs of a remote worker, buildbox, from Debian's packages: for `plumb pool up`.

Beside them in the prefix lie the C library and the others that they map, so that they run on an
older Debian, and on a machine of another distribution if the folder is copied to the same path.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.bootstrap import elf
from tools.bootstrap.closure import Package
from tools.bootstrap.errors import BrokenBuildError, SuiteMovedError
from tools.bootstrap.install import Layout, Product

PROGRAMS = ("buildbox-casd", "buildbox-run-hosttools", "buildbox-worker")
_PACKAGE = "buildbox"
_MAJOR = "1"
_PLACE = "made_for.txt"
_C_LIBRARY = "usr/lib/*/libc.so.6"


def version_of(packages: Sequence[Package]) -> str:
    """buildbox's own version, such as `1.4.16`, from the package's `1.4.16+dfsg-1`.

    Raises:
        SuiteMovedError: the suite has another major version, or none.
    """
    found = next((package.version for package in packages if package.name == _PACKAGE), "none")
    match = re.match(r"(\d+)\.\d+(?:\.\d+)*", found)
    if not match or match[1] != _MAJOR:
        raise SuiteMovedError(
            f"The suite has buildbox {found}, wanted {_MAJOR}.x: put {', '.join(PROGRAMS)} of that "
            "version on PATH."
        )
    return match[0]


def build(unpacked: Path, staged: Path, final: Path) -> None:
    """Fills `staged` from `unpacked`, for use at `final` after a rename.

    Raises:
        BrokenBuildError: the packages lack something that is needed.
    """
    sources = [unpacked / "usr/bin" / name for name in PROGRAMS]
    lacking = [source.name for source in sources if not source.is_file()]
    found = sorted(unpacked.glob(_C_LIBRARY))
    if lacking or not found:
        raise BrokenBuildError(
            f"The packages brought no {', '.join(lacking) or _C_LIBRARY}: were they renamed?"
        )
    folder = found[0].parent
    loader = elf.Loader(unpacked, [folder])
    for name in ("bin", "lib"):
        (staged / name).mkdir()
    needed = {path for source in sources for path in loader.libraries(source)}
    # The C library loads these by name, when it looks up users and hosts.
    needed |= set(folder.glob("libnss_*.so.*"))
    for path in [*needed, loader.path]:
        shutil.copyfile(path, staged / "lib" / path.name)
    ld = Path("lib") / loader.path.name
    (staged / ld).chmod(0o755)
    for source in sources:
        program = staged / "bin" / source.name
        shutil.copyfile(source, program)
        program.chmod(0o755)
        patchelf = unpacked / "usr/bin/patchelf"
        elf.set_loader(loader, patchelf, program, final / ld, str(final / "lib"))
    (staged / _PLACE).write_text(f"{final}\n", encoding="utf-8")


def run(prefix: Path) -> None:
    """Starts each program.

    Raises:
        BrokenBuildError: one does not start.
    """
    for name in PROGRAMS:
        program = prefix / "bin" / name
        try:
            done = subprocess.run([program, "--version"], capture_output=True, check=False)
        except OSError as error:
            raise BrokenBuildError(f"{program} does not start: {error.strerror}.") from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
            raise BrokenBuildError(f"{program} --version failed: {said}")


def is_ready(layout: Layout) -> bool:
    """Whether `layout` holds buildbox made for this place, the only one where it runs."""
    mark = layout.current / _PLACE
    return mark.is_file() and Path(mark.read_text(encoding="utf-8").strip()).parent == layout.home


BUILDBOX = Product(
    name="buildbox",
    wanted=(_PACKAGE, "patchelf"),
    version=version_of,
    build=build,
    run=run,
    is_ready=is_ready,
)
