"""Where kernels that are compiled at run time lie, so that the tests of a run compile each once.

Triton and FlashInfer name what they compile by a hash of its source, options and versions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Like the GPU slots: a sandboxed test can write in no home, and has a /tmp of its own.
_SHARED = Path("/dev/shm")


def _writable(path: Path) -> Path:
    reason = "is no absolute path"
    if path.is_absolute():
        try:
            path.mkdir(parents=True, exist_ok=True)
            if os.access(path, os.W_OK | os.X_OK):
                return path
            reason = "is not writable"
        except OSError as error:
            reason = f"cannot be made ({error.strerror})"
    raise ValueError(
        f"PLUMBLINE_KERNEL_CACHE is '{path}', which {reason}: wanted a folder that tests can write "
        f"in. In a sandbox, pass --sandbox_writable_path={path} as well."
    )


def folder(environ: Mapping[str, str], shared: Path = _SHARED) -> Path:
    """The folder that this user's tests share, or the test's own where there can be none.

    Args:
        environ: PLUMBLINE_KERNEL_CACHE names another folder, which a sandboxed test must be able to
            write in (`--sandbox_writable_path`); TEST_TMPDIR is the test's own.
        shared: a folder in memory that every process can write in.

    Raises:
        ValueError: the named folder is no absolute path, or cannot be written in.
    """
    named = environ.get("PLUMBLINE_KERNEL_CACHE")
    if named:
        return _writable(Path(named))
    common = shared / f"plumbline-kernels-{os.getuid()}"
    try:
        common.mkdir(mode=0o700, exist_ok=True)
        state = common.lstat()
    except OSError:
        return Path(environ["TEST_TMPDIR"])
    # Anyone can make a folder of that name there, and code from it would be run.
    own = common.is_dir() and not common.is_symlink() and state.st_uid == os.getuid()
    return common if own and not state.st_mode & 0o022 else Path(environ["TEST_TMPDIR"])
