"""Names of the code: each says what it holds, and no module is named like its folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mha_viz"
MODULES = sorted(PACKAGE.rglob("*.py"))
EMPTY_WORDS = frozenset(
    "asked found given held here it its kept known left looks made one ones others own place"
    " places rest said seen stands taken there thing things those told what which whole".split()
)


def empty_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that the code names by a word that tells nothing."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.alias(asname=str(name))
                | ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                if name.strip("_") in EMPTY_WORDS:
                    yield node.lineno, name


@pytest.mark.parametrize(
    "code",
    ["found = 1", "for one in rows: pass", "def search(*, _given): pass",
        "def told(): pass", "with run() as it: pass",
     "[thing for thing in rows]", "import torch as own", "class Study:\n    held: int"],
)  # fmt: skip
def test_empty_names_finds_every_way_to_bind_a_name(code: str) -> None:
    assert len({name for _, name in empty_names(ast.parse(code))}) == 1


def test_names_say_what_they_hold() -> None:
    offenders = [
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in MODULES
        for line, name in empty_names(ast.parse(path.read_text("utf-8")))
    ]
    assert offenders == []


def test_no_module_is_named_like_its_folder() -> None:
    assert [str(path) for path in MODULES if path.stem == path.parent.name] == []
