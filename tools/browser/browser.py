"""A headless Chromium for tests: the one that `//tools/browser:chromium` holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

_FOLDER = Path("external/chromium/browser")
# Its own sandbox needs rights that a container may lack; tests open pages of ours only.
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-zygote")


def find() -> Path | None:
    """The folder with chromium, lib/ and etc/, from the runfiles; None if Bazel gave none.

    `bazel test` names the runfiles, `bazel run` starts in them.
    """
    source, workspace = os.environ.get("TEST_SRCDIR"), os.environ.get("TEST_WORKSPACE", "")
    runfiles = Path(source) / workspace if source else Path.cwd()
    for folder in (runfiles / _FOLDER, runfiles.parent / "chromium" / "browser"):
        if (folder / "chromium").is_file():
            return folder.resolve()
    return None


@contextmanager
def started(scratch: Path) -> Iterator[Browser]:
    """A running browser that keeps its files in `scratch`; skips the test if there is none."""
    folder = find()
    if folder is None:
        pytest.skip(
            "needs the Chromium of //tools/browser:chromium: run it by `tools/bazel test`, whose "
            ".bazelrc sets that flag to @chromium//:chromium"
        )
    environment = {
        "FONTCONFIG_PATH": str(folder / "etc"),
        "HOME": str(scratch),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "TMPDIR": str(scratch),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=folder / "chromium", args=list(_OPTIONS), env=dict(environment)
        )
        try:
            yield browser
        finally:
            browser.close()
