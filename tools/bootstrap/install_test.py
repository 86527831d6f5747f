import errno
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.bootstrap import apt, apt_sources, install, machine, packages
from tools.bootstrap.closure import Package
from tools.bootstrap.errors import (
    BootstrapError,
    BrokenBuildError,
    MirrorError,
    NoSpaceError,
    SuiteMovedError,
    UnusableFolderError,
)
from tools.bootstrap.fake_packages import unpack_fake_packages
from tools.bootstrap.install import Bootstrap, Layout
from tools.bootstrap.prefix import RC_NAME
from tools.bootstrap.progress import Progress

CONTENT = b"a package"


class FakeApt:
    """Stands for apt-get: one package, its version and the mirrors that are down set by tests."""

    version = "7.7.1+ds-8"
    down: tuple[str, ...] = ()
    downloads = 0

    def __init__(self, folder: Path, mirror: str, suite: str, keyring: Path) -> None:
        self.archives, self.mirror = folder / "archives", mirror
        self.archives.mkdir(parents=True, exist_ok=True)

    def update(self, tick: Callable[[], None]) -> None:
        tick()
        if self.mirror in self.down:
            raise MirrorError(f"{self.mirror} is down")

    def closure(self, names: tuple[str, ...]) -> list[Package]:
        name = f"bazel-bootstrap_{self.version}_amd64.deb"
        digest = hashlib.sha256(CONTENT).hexdigest()
        return [Package(f"{self.mirror}/{name}", name, len(CONTENT), digest)]

    def download(self, names: tuple[str, ...], tick: Callable[[], None]) -> None:
        tick()
        for package in self.closure(names):
            path = self.archives / package.filename
            if not path.exists():
                type(self).downloads += 1
                path.write_bytes(CONTENT)

    def fetched_bytes(self) -> int:
        return 0


@pytest.fixture
def reported() -> list[str]:
    """What the unpacked Bazel says on --version; tests replace it."""
    return ["bazel 7.7.1"]


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]) -> Layout:
    def unpack(path: Path, root: Path) -> None:
        unpack_fake_packages(root)
        (root / "usr/bin/bazel").write_text(f"#!/bin/sh\necho {reported[0]}\n")

    class Apt(FakeApt):
        pass

    monkeypatch.setattr(apt, "PrivateApt", Apt)
    monkeypatch.setattr(apt, "find_keyring", lambda: Path("/k.gpg"))
    monkeypatch.setattr(packages, "unpack", unpack)
    monkeypatch.setattr(machine, "require_debian", lambda: "bookworm")
    monkeypatch.setattr(machine, "require_space", lambda home: None)
    monkeypatch.setattr(apt_sources, "read_sources", list)
    monkeypatch.setattr(apt_sources, "archive_mirrors", lambda sources, codename: ["one", "two"])
    return Layout(tmp_path / "bazel")


def run(layout: Layout, force: bool = False) -> Path:
    return Bootstrap(layout, "testing", Progress()).install(force)


def test_an_empty_cache_ends_with_a_prefix_named_by_its_version(layout: Layout) -> None:
    assert run(layout) == layout.home / "7.7.1"
    assert layout.current.readlink() == Path("7.7.1")
    assert layout.is_ready()
    assert {path.name for path in layout.home.iterdir()} == {"7.7.1", "current", "lock"}


def test_a_ready_prefix_is_used_as_it_is(layout: Layout) -> None:
    run(layout)
    marker = layout.current / "marker"
    marker.touch()
    run(layout)
    assert marker.exists()
    run(layout, force=True)
    assert not marker.exists()


def test_what_an_interrupted_run_fetched_is_not_fetched_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, root: Path) -> None:
        (root / "half").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packages, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(layout)
    assert not layout.is_ready()

    prefix = run(layout)

    assert vars(apt.PrivateApt)["downloads"] == 1
    assert not list(prefix.rglob("half"))
    assert not layout.work.exists()


def test_an_unfinished_prefix_of_the_same_name_is_replaced(layout: Layout) -> None:
    unfinished = layout.home / "7.7.1"
    (unfinished / "read-only").mkdir(parents=True)
    (unfinished / "read-only/file").touch()
    (unfinished / "read-only").chmod(0o555)
    assert not (run(layout) / "read-only").exists()


def test_a_prefix_made_elsewhere_is_made_anew(layout: Layout) -> None:
    run(layout)
    rc = layout.current / RC_NAME
    rc.write_text(rc.read_text().replace(str(layout.home), "/elsewhere/bazel"))
    assert not layout.is_ready()
    run(layout)
    assert layout.is_ready()


@pytest.mark.parametrize(
    ("answer", "error"),
    [("bazel 8.0.0", SuiteMovedError), ("; exit 3", BrokenBuildError)],
)
def test_a_bazel_that_is_not_seven_or_fails_never_becomes_current(
    layout: Layout, reported: list[str], answer: str, error: type[BootstrapError]
) -> None:
    reported[0] = answer
    with pytest.raises(error):
        run(layout)
    assert not layout.current.exists()


def test_a_moved_suite_leaves_nothing_behind(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt.PrivateApt, "version", "8.1.0-1")
    with pytest.raises(SuiteMovedError, match=r"Found Bazel 8\.1\.0"):
        run(layout)
    assert not layout.work.exists()


def test_the_next_mirror_is_asked_when_one_is_down(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt.PrivateApt, "down", ("one",))
    assert run(layout).name == "7.7.1"


def test_when_all_are_down_each_is_named(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt.PrivateApt, "down", ("one", "two"))
    with pytest.raises(MirrorError, match="one is down\ntwo is down"):
        run(layout)


def test_a_program_that_cannot_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenBuildError, match="usr/bin/bazel does not start: No such file"):
        install.run_version(tmp_path)


def test_a_link_moves_in_one_step(tmp_path: Path) -> None:
    link = tmp_path / "current"
    install.point(link, "7.7.1")
    (tmp_path / "current.new").symlink_to("left by a crash")
    install.point(link, "7.8.0")
    assert link.readlink() == Path("7.8.0")
    assert [path.name for path in tmp_path.iterdir()] == ["current"]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, NoSpaceError, "Free 1000 MB"),
        (errno.EDQUOT, NoSpaceError, "XDG_CACHE_HOME"),
        (errno.EACCES, UnusableFolderError, "/f cannot be written"),
        (errno.EROFS, UnusableFolderError, "cannot be written"),
    ],
)
def test_troubles_of_the_disk_are_explained(number: int, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text), install.explained(Path("/home")):
        raise OSError(number, "as the system says", "/f")


def test_other_system_errors_pass() -> None:
    with pytest.raises(BrokenPipeError), install.explained(Path("/home")):
        raise BrokenPipeError(errno.EPIPE, "pipe")
    with pytest.raises(FileNotFoundError), install.explained(Path("/home")):
        raise FileNotFoundError(errno.ENOENT, "no such file", "dpkg-deb")
