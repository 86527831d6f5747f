from pathlib import Path

import pytest

from tools.bootstrap.fake_packages import write_jar
from tools.bootstrap.jars import closure, manifest_class_path


def test_a_folded_class_path_is_read_whole(tmp_path: Path) -> None:
    entries = [f"a-rather-long-archive-name-{number}.jar" for number in range(9)]
    write_jar(tmp_path / "a.jar", " ".join(entries))
    assert manifest_class_path(tmp_path / "a.jar") == entries


@pytest.mark.parametrize("class_path", [None, ""])
def test_no_manifest_or_an_empty_path_is_no_entry(tmp_path: Path, class_path: str | None) -> None:
    write_jar(tmp_path / "a.jar", class_path)
    assert manifest_class_path(tmp_path / "a.jar") == []


def test_the_closure_follows_relative_and_absolute_entries_once(tmp_path: Path) -> None:
    java = tmp_path / "usr/share/java"
    write_jar(java / "a.jar", "b.jar /usr/share/java/deep/c.jar")
    write_jar(java / "b.jar", "a.jar absent.jar")
    write_jar(java / "deep/c.jar", "d.jar")
    write_jar(java / "deep/d.jar", None)
    write_jar(java / "unrelated.jar", None)

    found = closure(tmp_path, ["/usr/share/java/a.jar", "/usr/share/java/missing.jar"])

    assert [str(path) for path in found] == [
        "/usr/share/java/a.jar",
        "/usr/share/java/b.jar",
        "/usr/share/java/deep/c.jar",
        "/usr/share/java/deep/d.jar",
    ]
