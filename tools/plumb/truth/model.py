"""A synthetic Bazel workspace as a model that edits change, and the files that it stands for."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

RULES = """
def _shell(ctx, out, words):
    ctx.actions.run_shell(
        outputs = [out],
        inputs = ctx.files.srcs,
        command = "(echo %s; cat /dev/null %s) > %s" % (
            " ".join(words), " ".join([f.path for f in ctx.files.srcs]), out.path),
    )

def _concat_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".out")
    _shell(ctx, out, [WORD])
    return [DefaultInfo(files = depset([out]))]

concat = rule(implementation = _concat_impl, attrs = {"srcs": attr.label_list(allow_files = True)})

def _flag_impl(ctx):
    return []

string_flag = rule(implementation = _flag_impl, build_setting = config.string(flag = True))
"""
MACROS = """
def checked(name, **kwargs):
    args = kwargs.pop("args", [])
    native.sh_test(name = name, size = "small", srcs = ["check.sh"], args = args, **kwargs)
"""
RC = [
    "startup --host_jvm_args=-DBAZEL_TRACK_SOURCE_DIRECTORIES=1",
    "common --noenable_bzlmod",
    "build --spawn_strategy=local",
    "test --test_strategy=standalone",
    "build:accelerated --//:accelerator=gpu",
]
ROOT = {
    "accelerator": ("string_flag", {"build_setting_default": '"none"'}),
    "gpu": ("config_setting", {"flag_values": '{":accelerator": "gpu"}'}),
}
POLICY = """
[[rule]]
pattern = "**/*.md"
affects = "nothing"
reason = "documentation"
[[rule]]
pattern = "tools/**"
affects = "nothing"
reason = "of plumb itself"
"""
CHECK = "#!/bin/sh\nexit 0\n"


@dataclass
class Rule:
    """A target: rule or macro, and its attributes as Starlark."""

    kind: str
    attributes: dict[str, str]


@dataclass
class Package:
    """What a BUILD file says. comments stand at its end."""

    rules: dict[str, Rule] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The BUILD file."""
        settings = {"default_visibility": '["//visibility:public"]', **self.settings}
        arguments = ", ".join(f"{name} = {value}" for name, value in settings.items())
        lines = [
            'load("//:rules.bzl", "concat", "string_flag")',
            'load("//:macros.bzl", "checked")',
            f"package({arguments})",
        ]
        for name, rule in self.rules.items():
            lines += [f"{rule.kind}(", f'    name = "{name}",']
            lines += [f"    {key} = {value}," for key, value in rule.attributes.items()]
            lines += [")"]
        return "\n".join([*lines, *self.comments, ""])


@dataclass
class Model:
    """The workspace. links: path to target; executable: paths; plain files are in `files`."""

    packages: dict[str, Package] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)
    rc: list[str] = field(default_factory=lambda: list(RC))
    workspace: list[str] = field(default_factory=lambda: ['workspace(name = "made")'])
    rules: str = RULES
    macros: str = MACROS
    word: int = 0
    serial: int = 0

    def new_name(self, start: str) -> str:
        """A name that was never used here, so that no old result of Bazel's can be its own."""
        self.serial += 1
        return f"{start}{self.serial}"

    def texts(self) -> dict[str, str]:
        """Path to content of every file."""
        made = {
            "WORKSPACE": "\n".join([*self.workspace, ""]),
            ".bazelrc": "\n".join([*self.rc, ""]),
            "rules.bzl": f'WORD = "w{self.word}"\n{self.rules}',
            "macros.bzl": self.macros,
        }
        for name, package in self.packages.items():
            made[f"{name}/BUILD".lstrip("/")] = package.text()
        return made | self.files

    def write(self, root: Path) -> None:
        """Makes `root` hold the model, touching only what differs."""
        texts = self.texts()
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root).as_posix()
            if inside.startswith((".git/", "bazel-")) or inside == ".git":
                continue
            if (path.is_file() or path.is_symlink()) and inside not in {*texts, *self.links}:
                path.unlink()
        for inside, text in texts.items():
            _write(root / inside, text, executable=inside in self.executable)
        for inside, target in self.links.items():
            _link(root / inside, target)


def _write(path: Path, text: str, *, executable: bool) -> None:
    mode = 0o755 if executable or path.suffix == ".sh" else 0o644
    if path.is_symlink() or not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


def _link(path: Path, target: str) -> None:
    if not path.is_symlink() or str(path.readlink()) != target:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def build(seed: int, packages: int = 8) -> Model:
    """A workspace of so many packages, each of which uses some of those before it."""
    chance = random.Random(seed)
    model = Model()
    model.files |= {
        "tools/plumb/policy.toml": POLICY,
        ".gitignore": "/bazel-*\n*.ignored\n",
        "notes.md": "notes\n",
    }
    root = {name: Rule(kind, dict(attributes)) for name, (kind, attributes) in ROOT.items()}
    model.packages[""] = Package(root)
    names: list[str] = []
    for number in range(packages):
        name = f"p{number}"
        _add_package(model, name, chance.sample(names, min(len(names), chance.randint(0, 2))))
        names.append(name)
    return model


def _add_package(model: Model, name: str, uses: list[str]) -> None:
    libraries = [f"//{use}:lib" for use in uses]
    files = {
        "lib.py": "X = 1\n",
        "cpu.txt": "cpu\n",
        "gpu.txt": "gpu\n",
        "lib_test.py": "assert True\n",
        "parts/a.txt": "a\n",
        "parts/b.txt": "b\n",
        "inner/c.txt": "c\n",
        "folder/d.txt": "d\n",
        "data.txt": "data\n",
        "spare.txt": "spare\n",
        "page.txt": "page\n",
        "check.sh": CHECK,
    }
    model.files |= {f"{name}/{path}": text for path, text in files.items()}
    model.links[f"{name}/link.txt"] = "data.txt"
    branches = '{"//:gpu": ["gpu.txt"], "//conditions:default": ["cpu.txt"]}'
    package = Package()
    for target, kind, attributes in (
        ("lib", "py_library", {"srcs": '["lib.py"]', "deps": _list(libraries)}),
        ("chosen", "filegroup", {"srcs": f"select({branches})"}),
        ("parts", "filegroup", {"srcs": 'glob(["parts/*.txt", "inner/**/*.txt"])'}),
        ("data", "filegroup", {"srcs": '["data.txt"]'}),
        ("spare", "filegroup", {"srcs": '["spare.txt"]'}),
        ("page", "filegroup", {"srcs": '["page.txt"]'}),
        ("alias", "alias", {"actual": '":data"'}),
        ("joined", "concat", {"srcs": '[":parts"]'}),
        ("made", "genrule", {"srcs": '[":data"]', "outs": '["made.txt"]', "cmd": '"cat $< > $@"'}),
        ("lib_test", "py_test", {"srcs": '["lib_test.py"]', "deps": '[":lib"]', "size": '"small"'}),
        ("parts_test", "checked", {"data": '[":joined", ":chosen"]'}),
        ("alias_test", "checked", {"data": '[":alias"]', "tags": '["seconds:3"]'}),
        ("made_test", "checked", {"data": '[":made", "link.txt"]'}),
        (
            "folder_test",
            "checked",
            {"data": _list([f"//{use}:chosen" for use in uses], "folder", ":page")},
        ),
        (
            "below_test",
            "checked",
            {"args": 'subpackages(include = ["**"], allow_empty = True)'},
        ),
        ("suite", "test_suite", {"tests": '[":lib_test"]'}),
        ("friends", "package_group", {"packages": '["//..."]'}),
    ):
        package.rules[target] = Rule(kind, dict(attributes))
    model.packages[name] = package


def _list(labels: list[str], *more: str) -> str:
    return "[" + ", ".join(f'"{label}"' for label in [*labels, *more]) + "]"
