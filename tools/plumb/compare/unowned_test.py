from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tools.plumb.compare import unowned
from tools.plumb.compare.unowned import Decision, Rule
from tools.plumb.errors import PlumbError
from tools.plumb.synthetic import files, revision, source
from tools.plumb.trees.files import SUBMODULE, Entry

POLICY = (
    Rule("**/*.md", "nothing", "documentation"),
    Rule("boot/*.py", "everything", "makes Bazel", even_if_owned=True),
)
FILES = {
    "a/BUILD": "",
    "a/s.py": "",
    "a/x.bzl": "",
    "a/doc.md": "",
    "boot/b.py": "",
    "d/e/f": "",
    "real/r.py": "",
    "link": "->real",
    "stray": "",
    "lock": "",
    "WORKSPACE": 'pip_parse(name = "pip", requirements_lock = "//:lock")',
}
TARGETS = (source("//a:s.py"), source("//boot:b.py"), source("//:d"), source("//:link/r.py"))


def decide(*paths: str) -> list[Decision]:
    made = revision(FILES, *TARGETS)
    return unowned.decide(list(paths), made, made, POLICY)


def test_what_the_graph_accounts_for_needs_no_decision() -> None:
    assert decide("a/s.py", "a/BUILD", "a/x.bzl", "WORKSPACE", "lock", "d/e/f") == []


def test_links_are_owned_with_what_they_lead_to() -> None:
    assert decide("link", "real/r.py") == []


def test_what_a_linked_bzl_file_leads_to_shows_in_the_graph() -> None:
    made = revision({"a/x.bzl": "->../t", "t": ""})

    assert unowned.decide(["t"], made, made, ()) == []


def test_a_deleted_source_was_owned_by_the_base() -> None:
    base, head = revision(FILES, *TARGETS), revision({})

    assert unowned.decide(["a/s.py"], base, head, POLICY) == []


def test_the_policy_decides_and_unknown_means_everything() -> None:
    found = {d.path: d.affects for d in decide("a/doc.md", "stray")}

    assert found == {"a/doc.md": "nothing", "stray": "everything"}
    assert (
        "add it to .gitignore, or a rule for it to tools/plumb/policy" in decide("stray")[0].reason
    )


@pytest.mark.parametrize("name", ["policy.toml", "pools.toml"])
def test_what_plumb_itself_reads_affects_no_test_unless_a_rule_says_so(name: str) -> None:
    path = f"tools/plumb/{name}"
    assert [(d.affects, d.mapped) for d in decide(path)] == [("nothing", True)]

    made = revision(FILES, *TARGETS)
    rule = Rule(path, "everything", "it matters here")
    assert [d.affects for d in unowned.decide([path], made, made, (rule,))] == ["everything"]


def test_a_rule_can_hold_for_owned_files_too() -> None:
    assert [(d.path, d.reason) for d in decide("boot/b.py")] == [("boot/b.py", "makes Bazel")]


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/*.md", "README.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("*.md", "a/c.md", False),
        ("docs/**", "docs/a/b", True),
        ("docs/**", "docsx/a", False),
        ("a.b", "aXb", False),
        ("a/?.py", "a/b.py", True),
        ("**/.gitignore", ".gitignore", True),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    assert Rule(pattern, "nothing", "").matches(path) is matches


def test_the_revisions_own_policy_is_read() -> None:
    text = '[[rule]]\npattern = "x"\naffects = "nothing"\nreason = "y"\n'
    tree = files({unowned.POLICY_PATH: text})

    assert unowned.policy_of(tree) == (Rule("x", "nothing", "y"),)


def test_another_workspace_is_not_judged_by_our_policy() -> None:
    assert unowned.policy_of(files({})) == ()


def test_this_repositorys_policy_can_be_read() -> None:
    assert unowned.parse_policy((Path(__file__).parents[1] / "policy.toml").read_text())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]", "cannot be read"),
        (f"x = {'9' * 5000}", "cannot be read"),
        (f"x = {'[' * 5000}{']' * 5000}", "cannot be read"),
        ('[[rule]]\npatern = "x"\n', "rule 1 says 'patern'. An entry is [[rule]] with pattern,"),
        ('[[rule]]\npattern = "x"\naffects = "nothing"\n', "rule 1 lacks 'reason'"),
        ('[[rules]]\npattern = "x"\n', "says 'rules', which is no part of a policy"),
        ("rule = [5]", "has a 'rule' that is no table"),
        (
            '[[rule]]\npattern = 5\naffects = "nothing"\nreason = ""\n',
            "rule 1 has pattern = 5; write a string",
        ),
        (
            '[[rule]]\npattern = "x"\naffects = "nothing"\nreason = ""\neven_if_owned = "no"\n',
            "rule 1 has even_if_owned = 'no'; write true or false",
        ),
        ("rule = 5", "has a 'rule' that is no table"),
        ('[[rule]]\npattern = "x"\naffects = "some"\nreason = ""\n', "'x' says affects = 'some'"),
    ],
)
def test_a_broken_policy_is_an_error_that_names_the_entry(text: str, says: str) -> None:
    with pytest.raises(PlumbError, match=r"policy\.toml") as error:
        unowned.parse_policy(text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "label", "reached"),
    [
        ("//...", "//a:t", True),
        ("//a/...", "//a/b:t", True),
        ("//a/...", "//ab:t", False),
        ("//a:all", "//a:t", True),
        ("//a:*", "//a/b:t", False),
        ("//a", "//a:a", True),
        ("//a:t", "//a:u", False),
    ],
)
def test_a_rule_can_name_tests(pattern: str, label: str, reached: bool) -> None:
    assert Decision("x", (pattern,), "").reaches(label) is reached


@pytest.mark.parametrize("affects", ['["a:t"]', '"some"', "[]", "[3]"])
def test_a_rule_that_names_no_tests_is_refused(affects: str) -> None:
    with pytest.raises(PlumbError, match="write 'nothing', 'everything' or a list of tests"):
        unowned.parse_policy(f'[[rule]]\npattern = "x"\naffects = {affects}\nreason = "y"\n')


def test_a_submodule_that_is_not_here_says_how_to_fetch_it() -> None:
    base, head = revision({"lib/sub": "1"}), revision({"lib/sub": "2"})
    for side, name in ((base, "1" * 40), (head, "2" * 40)):
        cast(dict[str, Entry], side.files.entries)["lib/sub"] = Entry(SUBMODULE, name)

    (decision,) = unowned.decide(["lib/sub"], base, head, ())

    assert decision.affects == unowned.EVERYTHING and not decision.mapped
    assert "git submodule update --init lib/sub" in decision.reason
