"""Reads a git repository through plumbing commands that change nothing of the user's.

The working tree is read by writing it as a tree object into a private object folder, with
a private copy of the index: tracked files as they are on disk, and untracked ones that no
ignore rule names. So every revision, the working tree too, is a tree id.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tools.plumb.cache import scratch_folder
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.trees import private_index, submodules
from tools.plumb.trees.blobs import Blobs
from tools.plumb.trees.files import SYMLINK, Entry, FileTable
from tools.plumb.trees.git_command import last_line, run_git, start_git

_OBJECTS = "GIT_OBJECT_DIRECTORY"
_COMMITTER = ("-c", "user.name=plumb", "-c", "user.email=plumb@localhost")


@dataclass(frozen=True)
class Tree:
    """A tree object of the workspace, and where its objects are found.

    parts: submodules by path whose files are others than those of the commit that it names.
    """

    id: str
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Tree] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Repository:
    """The git repository around a Bazel workspace.

    top: folder of the repository's working tree; prefix: the workspace below it ("" or "a/b/").
    """

    top: Path
    prefix: str
    _kept_blobs: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    # Two trees mostly share their files, and then one entry for each.
    _kept_entries: dict[str, Entry] = field(default_factory=dict, repr=False, compare=False)
    _kept_trees: dict[str, dict[str, Entry]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def find(cls, workspace: Path) -> Repository:
        """The repository that holds `workspace`. Raises PlumbError if there is none."""
        if shutil.which("git") is None:
            raise PlumbError("git is not on PATH; install it.", ExitCode.ENVIRONMENT)
        result = run_git(workspace, "rev-parse", "--show-toplevel", "--show-prefix", check=False)
        if b"dubious ownership" in result.stderr:
            raise PlumbError(
                f"git refuses to read {workspace}, since another user owns it. Allow it with "
                f"`git config --global --add safe.directory {workspace}`."
            )
        if result.returncode != 0:
            raise PlumbError(
                f"{workspace} is not in a git working tree ({last_line(result.stderr)}). "
                "Run plumb inside a clone of the repository."
            )
        lines = result.stdout.decode(errors="surrogateescape").split("\n")
        return cls(Path(lines[0]), lines[1])

    def tree_of(self, revision: str) -> Tree:
        """The workspace's tree at `revision`. Raises PlumbError if git does not know it."""
        # In two steps, since what follows a colon, as in HEAD:lib, is a path to its end.
        named = self._object(revision)
        if named is None:
            raise PlumbError(self._unknown_revision(revision))
        tree = self._object(f"{named}^{{tree}}")
        if tree is None:
            raise self._no_tree(revision, named)
        return self._below_prefix(Tree(tree, revision))

    def merge_base(self, base: str, head: str) -> str:
        """The commit from which `base` and `head` went apart.

        Raises PlumbError if there is none, or if the history that holds it is not here.
        """
        for revision in (base, head):
            if self._object(f"{revision}^{{commit}}") is None:
                raise PlumbError(self._unknown_revision(revision))
        found = self._run("merge-base", base, head, check=False)
        if found.returncode == 0:
            return found.stdout.decode().split()[0]
        if self._is_shallow():
            raise PlumbError(
                f"this shallow clone does not reach to where '{base}' and '{head}' went apart. "
                "Fetch more history with `git fetch --deepen=100` (or `git fetch --unshallow`), "
                "then run plumb again."
            )
        raise PlumbError(
            f"'{base}' and '{head}' have no commit in common; leave --merge-base out to compare "
            "them as they are."
        )

    @contextmanager
    def working_tree(self, scratch: Path) -> Iterator[Tree]:
        """The workspace's files as they are now, as a tree whose objects live in `scratch`."""
        with scratch_folder(scratch) as folder:
            objects = folder / "objects"
            objects.mkdir()
            environment = {
                "GIT_INDEX_FILE": str(folder / "index"),
                _OBJECTS: str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": self._quoted(self._git_path("objects")),
            }
            run = partial(self._run, environment=environment)
            private_index.copy(self._git_path("index"), folder / "index", run)
            private_index.see_every_file(self.top / self.prefix, run)
            added = self._run("add", "--all", "--", ".", check=False, environment=environment)
            if added.returncode != 0:
                raise PlumbError(
                    f"git cannot read the working tree: {last_line(added.stderr)}",
                    ExitCode.ENVIRONMENT,
                )
            written = self._run("write-tree", environment=environment)
            tree = Tree(written.stdout.decode().strip(), "the working tree", environment)
            tree = self._below_prefix(tree)
            with ExitStack() as stack:
                parts = {
                    path: stack.enter_context(module.working_tree(scratch))
                    for path in submodules.paths(self._entries(tree))
                    if (module := self._submodule(path)) is not None
                }
                yield replace(tree, parts=parts)

    def files(self, tree: Tree) -> FileTable:
        """Every file of `tree` with its mode and content id, those of submodules among them."""
        entries = self._entries(tree)
        blobs = Blobs(lambda: self._start_reader(tree), self._kept_blobs)
        table = FileTable(entries, lambda entry: blobs.read(entry.object_id))
        parts = self._parts(tree, entries)
        if not parts:
            return table
        return submodules.merged(
            table, {path: module.files(part) for path, (module, part) in parts.items()}
        )

    def _parts(
        self, tree: Tree, entries: Mapping[str, Entry]
    ) -> dict[str, tuple[Repository, Tree]]:
        """The submodules by path whose files are on this machine, each with its tree."""
        found = {}
        for path in submodules.paths(entries):
            module = self._submodule(path)
            if module is None:
                continue
            part = tree.parts.get(path)
            with suppress(PlumbError):
                found[path] = module, part or module.tree_of(entries[path].object_id)
        return found

    def _submodule(self, path: str) -> Repository | None:
        folder = self.top / self.prefix / path
        return Repository.find(folder) if submodules.is_checked_out(folder) else None

    def _entries(self, tree: Tree) -> Mapping[str, Entry]:
        if tree.id not in self._kept_trees:
            self._kept_trees[tree.id] = self._listed(tree)
        return self._kept_trees[tree.id]

    def _listed(self, tree: Tree) -> dict[str, Entry]:
        listing = self._run(
            "ls-tree", "-r", "-z", "--full-tree", tree.id, environment=tree.environment
        )
        entries, known = {}, self._kept_entries
        for line in listing.stdout.decode(errors="surrogateescape").split("\0"):
            if line:
                head, _, path = line.partition("\t")
                entry = known.get(head)
                if entry is None:
                    mode, _, object_id = head.split(" ")
                    entry = known[head] = Entry(mode, object_id)
                if entry.mode != SYMLINK or not _is_bazel_link(path, entry.mode):
                    entries[path] = entry
        return entries

    def _start_reader(self, tree: Tree) -> subprocess.Popen[bytes]:
        workspace = self.top / self.prefix
        return start_git(workspace, "cat-file", "--batch", environment=tree.environment)

    def check_out(self, tree: Tree, folder: Path, index: Path) -> None:
        """Makes `folder` hold exactly `tree`, touching only files that differ from before.

        index: a private index file that remembers what `folder` holds.
        """
        folder.mkdir(parents=True, exist_ok=True)
        parts = self._parts(tree, self._entries(tree))
        submodules.remove_others(folder, index, parts)
        index.with_name(index.name + ".lock").unlink(missing_ok=True)
        environment = {
            **tree.environment,
            "GIT_INDEX_FILE": str(index),
            "GIT_WORK_TREE": str(folder),
            "GIT_DIR": str(self._git_dir()),
        }
        result = run_git(
            folder, "read-tree", "--reset", "-u", tree.id, check=False, environment=environment
        )
        if result.returncode != 0:
            raise PlumbError(
                f"cannot check out {tree.name} into {folder}: {last_line(result.stderr)}",
                ExitCode.ENVIRONMENT,
            )
        for path, (module, part) in parts.items():
            module.check_out(part, folder / path, submodules.index_of(index, path))
        for link in folder.glob("bazel-*"):
            if _is_bazel_link(link.name, SYMLINK if link.is_symlink() else ""):
                link.unlink()

    def make_repository(self, tree: Tree, folder: Path, index: Path) -> None:
        """Makes `folder`, as `check_out` left it, a git repository whose one commit is `tree`.

        So a test there that asks git for the files gets the answer of a clone. Objects stay where
        they are; files that are not of the tree go.
        """
        own = folder / ".git"
        shutil.rmtree(own, ignore_errors=True)
        kind = self._run("rev-parse", "--show-object-format").stdout.decode().strip()
        run_git(folder, "init", "--quiet", "--template=", f"--object-format={kind}")
        (own / "objects" / "info").mkdir(exist_ok=True)
        held = [str(self._git_path("objects"))]
        # The working tree's own objects lie apart.
        held += [folder for name, folder in tree.environment.items() if name == _OBJECTS]
        lines = b"".join(os.fsencode(folder) + b"\n" for folder in held)
        (own / "objects" / "info" / "alternates").write_bytes(lines)
        shutil.copyfile(index, own / "index")
        commit = run_git(folder, *_COMMITTER, "commit-tree", "-m", tree.name, tree.id)
        run_git(folder, "update-ref", "HEAD", commit.stdout.decode().strip())
        run_git(folder, "clean", "--quiet", "-ffdx")

    def _object(self, revision: str) -> str | None:
        options = ("--verify", "--quiet", "--end-of-options")
        result = self._run("rev-parse", *options, revision, check=False)
        return result.stdout.decode().strip() if result.returncode == 0 else None

    def _below_prefix(self, tree: Tree) -> Tree:
        if not self.prefix:
            return tree
        path = f"{tree.id}:{self.prefix.rstrip('/')}"
        result = self._run(
            "rev-parse", "--verify", "--quiet", path, check=False, environment=tree.environment
        )
        if result.returncode == 0:
            return Tree(result.stdout.decode().strip(), tree.name, tree.environment)
        # The workspace did not exist yet: an empty tree, which has no WORKSPACE file.
        empty = self._run("hash-object", "-t", "tree", "--stdin", environment=tree.environment)
        return Tree(empty.stdout.decode().strip(), tree.name, tree.environment)

    def _no_tree(self, revision: str, named: str) -> PlumbError:
        kind = self._run("cat-file", "-t", f"{named}^{{}}", check=False).stdout.decode().strip()
        if kind == "blob":
            return PlumbError(
                f"'{revision}' is a file's content; name a commit, a tag, a branch or a tree."
            )
        return PlumbError(
            f"git cannot read the files of '{revision}' ({named[:12]}): its repository lacks "
            "objects, or they are damaged; `git fsck` says which.",
            ExitCode.ENVIRONMENT,
        )

    def _unknown_revision(self, revision: str) -> str:
        if self._is_shallow():
            return (
                f"'{revision}' is not in this shallow clone. "
                "Fetch its history with `git fetch --unshallow` "
                "(or `git fetch --deepen=100`), then run plumb again."
            )
        unknown = f"'{revision}' is not a commit, tag, branch or tree of {self.top}"
        if self._object("HEAD") is None:
            return (
                f"{unknown}, whose current branch has no commit yet. Make one with `git commit`, "
                "or name another branch; `git branch --all` lists them."
            )
        return (
            f"{unknown}. "
            "`git log --oneline -5` shows the latest commits; "
            "`git fetch` brings branches of the remote."
        )

    def _is_shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def _git_path(self, name: str) -> Path:
        return self._absolute(self._run("rev-parse", "--git-path", name).stdout)

    def _git_dir(self) -> Path:
        return self._absolute(self._run("rev-parse", "--absolute-git-dir").stdout)

    def _absolute(self, printed: bytes) -> Path:
        workspace = self.top / self.prefix
        return (workspace / os.fsdecode(printed.removesuffix(b"\n"))).resolve()

    @staticmethod
    def _quoted(path: Path) -> str:
        text = str(path)
        if ":" not in text and not text.startswith('"'):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def _run(
        self,
        *arguments: str,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
        given: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        workspace = self.top / self.prefix
        return run_git(workspace, *arguments, check=check, environment=environment, given=given)


def _is_bazel_link(path: str, mode: str) -> bool:
    # Bazel's own links, such as bazel-bin, lead out of the workspace: to packages not ours.
    return mode == SYMLINK and path.startswith("bazel-") and "/" not in path
