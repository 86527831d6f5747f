from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.trees.files import FileTable
from tools.plumb.trees.git import Repository


def git(folder: Path, *arguments: str) -> str:
    options = [
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@y",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "commit.gpgsign=false",
    ]
    return subprocess.run(
        ["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with one commit, with names and kinds of files that are easy to get wrong."""
    folder = tmp_path / "clone"
    (folder / "a dir").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "a dir" / "é ü.py").write_text("x")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    (folder / ".gitignore").write_text("ignored\n/bazel-*\n")
    (folder / ".gitattributes").write_text("hidden export-ignore\n")
    (folder / "hidden").write_text("h")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def listed(folder: Path, revision: str = "HEAD") -> FileTable:
    repository = Repository.find(folder)
    return repository.files(repository.tree_of(revision))


def working(folder: Path, scratch: Path) -> FileTable:
    repository = Repository.find(folder)
    with repository.working_tree(scratch) as tree:
        found = repository.files(tree)
        return FileTable({**found.entries}, lambda entry: b"")


def test_lists_files_with_modes_links_and_any_name(clone: Path) -> None:
    tree = listed(clone)

    assert {p: e.mode for p, e in tree.entries.items() if not p.startswith(".")} == {
        "a dir/é ü.py": "100644",
        "run.sh": "100755",
        "link": "120000",
        "hidden": "100644",
    }
    assert tree.text("link") == "#!/bin/sh"


def test_the_clean_working_tree_is_the_commit(clone: Path, tmp_path: Path) -> None:
    assert working(clone, tmp_path).entries == listed(clone).entries


def test_the_working_tree_has_dirty_and_untracked_but_no_ignored_files(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "run.sh").write_text("edited")
    (clone / "new").write_text("n")
    (clone / "ignored").write_text("i")
    (clone / "hidden").unlink()
    (clone / "bazel-bin").symlink_to("/somewhere")

    tree, before = working(clone, tmp_path).entries, listed(clone).entries

    assert tree.keys() - before.keys() == {"new"}
    assert before.keys() - tree.keys() == {"hidden"}
    assert tree["run.sh"] != before["run.sh"]


def test_reading_the_working_tree_writes_nothing_into_the_repository(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "run.sh").write_text("edited")
    (clone / "staged").write_text("s")
    git(clone, "add", "staged")

    def state() -> list[tuple[str, int]]:
        # git renews the date of an object that it would have written again.
        found = [p for p in clone.rglob("*") if not p.is_symlink()]
        return sorted((str(p), 0 if "objects" in p.parts else p.stat().st_mtime_ns) for p in found)

    before = state()
    working(clone, tmp_path / "scratch")

    assert state() == before
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_an_edit_that_git_was_told_to_overlook_is_seen(
    clone: Path, tmp_path: Path, mark: str
) -> None:
    git(clone, "update-index", mark, "run.sh", "a dir/é ü.py")
    (clone / "run.sh").write_text("edited")
    (clone / "a dir" / "é ü.py").write_text("e")

    tree, before = working(clone, tmp_path).entries, listed(clone).entries

    assert {p for p in tree if tree[p] != before[p]} == {"run.sh", "a dir/é ü.py"}
    assert tree.keys() == before.keys()


def test_a_sparse_checkout_lacks_nothing_and_shows_what_is_there(
    clone: Path, tmp_path: Path
) -> None:
    git(clone, "sparse-checkout", "set", "--cone", "--sparse-index")
    assert not (clone / "a dir").exists()
    assert working(clone, tmp_path).entries == listed(clone).entries

    (clone / "a dir").mkdir()
    (clone / "a dir" / "é ü.py").write_text("edited")
    (clone / "a dir" / "new").write_text("n")
    tree, before = working(clone, tmp_path).entries, listed(clone).entries
    assert tree["a dir/é ü.py"] != before["a dir/é ü.py"]
    assert tree.keys() - before.keys() == {"a dir/new"}


def test_works_when_called_from_a_hook(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "none"))

    assert "run.sh" in working(clone, tmp_path / "scratch").entries


def test_a_linked_worktree_is_read_as_its_own_tree(clone: Path, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "--quiet", "--detach", str(tmp_path / "other"))
    (tmp_path / "other" / "new").write_text("n")

    assert "new" in working(tmp_path / "other", tmp_path / "scratch").entries
    assert "new" not in working(clone, tmp_path / "scratch").entries


def test_a_workspace_below_the_top_is_its_own_tree(clone: Path, tmp_path: Path) -> None:
    assert list(listed(clone / "a dir").entries) == ["é ü.py"]
    assert list(working(clone / "a dir", tmp_path).entries) == ["é ü.py"]


def test_a_workspace_that_the_base_lacks_is_empty_there(clone: Path) -> None:
    (clone / "later").mkdir()

    assert listed(clone / "later").entries == {}


def test_a_check_out_holds_exactly_the_tree_and_moves_to_another(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "run.sh").write_text("second")
    (clone / "link").unlink()
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "two")
    repository, folder = Repository.find(clone), tmp_path / "out"

    repository.check_out(repository.tree_of("HEAD~1"), folder, tmp_path / "index")
    assert (folder / "link").is_symlink() and os.access(folder / "run.sh", os.X_OK)
    assert (folder / "hidden").is_file()
    kept = (folder / "a dir" / "é ü.py").stat().st_mtime_ns

    repository.check_out(repository.tree_of("HEAD"), folder, tmp_path / "index")
    assert not (folder / "link").exists()
    assert (folder / "run.sh").read_text() == "second"
    assert (folder / "a dir" / "é ü.py").stat().st_mtime_ns == kept
    assert git(clone, "status", "--porcelain") == ""


def test_a_check_out_can_be_made_a_repository_that_lists_its_own_files(
    clone: Path, tmp_path: Path
) -> None:
    repository, folder, index = Repository.find(clone), tmp_path / "out", tmp_path / "index"
    for _ in range(2):
        repository.check_out(repository.tree_of("HEAD"), folder, index)
        repository.make_repository(repository.tree_of("HEAD"), folder, index)

        assert git(folder, "status", "--porcelain", "--ignored") == ""
        assert git(folder, "ls-files") == git(clone, "ls-files")
        assert git(folder, "rev-parse", "HEAD^{tree}") == git(clone, "rev-parse", "HEAD^{tree}")
        (folder / "ignored").write_text("left by a test")
        (folder / "run.sh").write_text("edited by a test")
    assert git(clone, "status", "--porcelain") == ""


def test_the_working_tree_can_be_checked_out(clone: Path, tmp_path: Path) -> None:
    (clone / "new").write_text("n")
    repository = Repository.find(clone)

    with repository.working_tree(tmp_path) as tree:
        repository.check_out(tree, tmp_path / "out", tmp_path / "index")

    assert (tmp_path / "out" / "new").read_text() == "n"


@pytest.mark.parametrize("damaged", [True, False])
def test_a_commit_whose_files_are_damaged_or_gone_is_no_unknown_one(
    clone: Path, damaged: bool
) -> None:
    tree = git(clone, "rev-parse", "HEAD^{tree}")
    blob = clone / ".git/objects" / tree[:2] / tree[2:]
    blob.chmod(0o644)
    blob.write_bytes(b"garbage") if damaged else blob.unlink()

    commit = git(clone, "rev-parse", "HEAD")
    said = rf"cannot read the files of 'HEAD' \({commit[:12]}\).*git fsck"
    with pytest.raises(PlumbError, match=said) as raised:
        Repository.find(clone).tree_of("HEAD")
    assert raised.value.code == ExitCode.ENVIRONMENT


def test_a_files_content_is_no_revision(clone: Path) -> None:
    git(clone, "tag", "-a", "-m", "x", "of_a_file", "HEAD:hidden")
    for revision in ("HEAD:hidden", "of_a_file"):
        with pytest.raises(PlumbError, match=f"'{revision}' is a file's content"):
            Repository.find(clone).tree_of(revision)


@pytest.mark.parametrize("revision", ["nowhere", "HEAD~9", "--help", ""])
def test_an_unknown_revision_is_one_sentence(clone: Path, revision: str) -> None:
    with pytest.raises(PlumbError, match="is not a commit"):
        Repository.find(clone).tree_of(revision)


@pytest.mark.parametrize("revision", ["HEAD", "main", "HEAD^0", "v1", "main~0"])
def test_any_spelling_of_a_revision_works(clone: Path, revision: str) -> None:
    git(clone, "tag", "-a", "v1", "-m", "annotated")

    assert Repository.find(clone).tree_of(revision).id == git(clone, "rev-parse", "HEAD^{tree}")


def test_a_folder_of_a_revision_is_a_tree(clone: Path) -> None:
    assert Repository.find(clone).tree_of("HEAD:a dir").id == git(clone, "rev-parse", "HEAD:a dir")


def test_before_the_first_commit_the_next_step_is_to_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")

    with pytest.raises(PlumbError, match=r"has no commit yet\. Make one with `git") as error:
        Repository.find(tmp_path).tree_of("HEAD")
    assert "git log" not in str(error.value)


def test_a_shallow_clone_names_the_command_that_deepens(clone: Path, tmp_path: Path) -> None:
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{clone}", "shallow")

    with pytest.raises(PlumbError, match="git fetch --unshallow"):
        Repository.find(tmp_path / "shallow").tree_of("HEAD~1")


def test_outside_a_repository_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="not in a git working tree"):
        Repository.find(tmp_path)
    with pytest.raises(PlumbError, match="there is no folder"):
        Repository.find(tmp_path / "absent")


@pytest.fixture
def parent(clone: Path, tmp_path: Path) -> Path:
    """The clone with another repository as its submodule `sub`."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    (other / "lib.py").write_text("one")
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "-m", "one")
    git(clone, "submodule", "--quiet", "add", f"file://{other}", "sub")
    git(clone, "commit", "--quiet", "-m", "submodule")
    return clone


def test_files_of_a_submodule_are_files_of_the_tree(parent: Path, tmp_path: Path) -> None:
    tree = listed(parent)

    assert "sub" not in tree.entries and tree.text("sub/lib.py") == "one"
    assert working(parent, tmp_path / "scratch").entries == tree.entries


def test_an_uncommitted_edit_in_a_submodule_is_seen(parent: Path, tmp_path: Path) -> None:
    (parent / "sub/lib.py").write_text("two")
    (parent / "sub/new.py").write_text("new")

    found = working(parent, tmp_path / "scratch").entries

    assert found["sub/lib.py"] != listed(parent).entries["sub/lib.py"] and "sub/new.py" in found
    assert git(parent / "sub", "diff", "--cached") == ""
    assert list((tmp_path / "scratch").iterdir()) == []


def test_each_revision_has_the_submodule_of_its_own_commit(parent: Path, tmp_path: Path) -> None:
    (parent / "sub/lib.py").write_text("two")
    git(parent / "sub", "commit", "--quiet", "--all", "-m", "two")
    git(parent, "commit", "--quiet", "--all", "-m", "bump")
    repository, folder = Repository.find(parent), tmp_path / "out"

    for revision, text in (("HEAD", "two"), ("HEAD~1", "one"), ("HEAD", "two"), ("HEAD~2", "")):
        assert (listed(parent, revision).text("sub/lib.py") or "") == text
        repository.check_out(repository.tree_of(revision), folder, tmp_path / "index")
        checked_out = folder / "sub/lib.py"
        assert (checked_out.read_text() if checked_out.exists() else "") == text


def test_a_submodule_that_is_not_here_is_the_name_of_its_commit(
    parent: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", str(parent), str(tmp_path / "again"))

    tree = listed(tmp_path / "again")

    assert tree.entries["sub"].mode == "160000" and tree.text("sub") is None
    assert working(tmp_path / "again", tmp_path / "scratch").entries == tree.entries


def test_a_merge_base_is_where_two_branches_went_apart(clone: Path) -> None:
    start = git(clone, "rev-parse", "HEAD")
    git(clone, "branch", "other")
    for branch in ("main", "other"):
        git(clone, "checkout", "--quiet", "-B", branch, start)
        git(clone, "commit", "--quiet", "--allow-empty", "-m", branch)

    assert Repository.find(clone).merge_base("main", "other") == start


def test_without_a_common_commit_the_next_step_is_named(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "--orphan", "alone")
    git(clone, "commit", "--quiet", "-m", "alone")
    first = git(clone, "rev-parse", "HEAD")
    git(clone, "checkout", "--quiet", "--orphan", "alone2")
    git(clone, "commit", "--quiet", "-m", "alone2")

    with pytest.raises(PlumbError, match="no commit in common"):
        Repository.find(clone).merge_base(first, "HEAD")


def test_a_merge_base_beyond_a_shallow_clone_says_how_to_deepen(
    clone: Path, tmp_path: Path
) -> None:
    git(clone, "branch", "other")
    for branch in ("topic", "other"):
        git(clone, "checkout", "--quiet", "-B", branch)
        git(clone, "commit", "--quiet", "--allow-empty", "-m", branch)
    git(clone, "checkout", "--quiet", "-B", "other", "HEAD~2")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "x")
    shallow = tmp_path / "shallow"
    options = ("--quiet", "--depth=1", "--no-single-branch")
    git(tmp_path, "clone", *options, f"file://{clone}", str(shallow))

    with pytest.raises(PlumbError, match="git fetch --deepen=100"):
        Repository.find(shallow).merge_base("origin/other", "origin/topic")
