from __future__ import annotations

from tools.plumb.synthetic import files
from tools.plumb.trees.files import changed_paths


def test_follows_links_of_files_and_folders() -> None:
    tree = files({"a/real.py": "x", "b/link.py": "->../a/real.py", "c": "->a"})

    assert tree.resolve("b/link.py") == "a/real.py"
    assert tree.resolve("c/real.py") == "a/real.py"
    assert tree.text("c/real.py") == "x"
    assert tree.is_folder("c")


def test_a_link_out_of_the_tree_and_a_loop_resolve_to_nothing() -> None:
    tree = files({"up": "->../x", "root": "->/etc/passwd", "p": "->q", "q": "->p"})

    assert [tree.resolve(path) for path in ("up", "root", "p")] == [None, None, None]
    assert tree.text("root") is None


def test_what_lies_outside_is_found_but_for_loops_and_missing_files() -> None:
    tree = files(
        {"up": "->../x", "d/e/in": "->../f", "d/e/root": "->/x", "far": "->/y", "p": "->p"}
    )

    found = [tree.outside(path) for path in ("up", "d", "d/e/in", "far/below", "p", "absent")]
    assert found == ["up", "d/e/root", None, "far/below", None, None]


def test_identity_tells_content_mode_and_target_apart() -> None:
    texts = {"f": "x", "g": "y", "l": "->f"}
    old = files(texts)

    assert old.identity("f") != files({"f": "z"}).identity("f")
    assert old.identity("f") != files({"f": "*x"}).identity("f")
    assert old.identity("l") != files({**texts, "l": "->g"}).identity("l")
    assert old.identity("l") != files({**texts, "f": "z"}).identity("l")
    assert old.identity("l") == files({**texts, "g": "other"}).identity("l")


def test_a_folders_identity_is_that_of_all_below_it() -> None:
    texts = {"d/a": "1", "d/e/b": "2", "dx/c": "3"}
    old = files(texts)

    assert old.identity("d") != files({**texts, "d/e/b": "4"}).identity("d")
    assert old.identity("d") != files({**texts, "d/new": ""}).identity("d")
    assert old.identity("d") == files({**texts, "dx/c": "4"}).identity("d")


def test_a_folder_that_links_to_itself_has_an_identity() -> None:
    assert files({"d/a": "1", "d/self": "->."}).identity("d").startswith("folder")


def test_a_missing_file_differs_from_an_empty_one() -> None:
    assert files({}).identity("f") == "missing"
    assert files({"f": ""}).identity("f") != "missing"


def test_names_that_begin_with_dots_stay_in_the_tree() -> None:
    assert files({"..odd": "x"}).resolve("..odd") == "..odd"


def test_changed_paths_lists_added_deleted_and_edited() -> None:
    old = files({"same": "x", "gone": "y", "edited": "1", "mode": "*a"})
    new = files({"same": "x", "new": "y", "edited": "2", "mode": "a"})

    assert changed_paths(old, new) == ["edited", "gone", "mode", "new"]
