"""Docstrings say what the caller gets: none opens with a question word or a preposition."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUESTIONS = frozenset("What Who How Where When Whether Of In As That Which Why".split())


def openings(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the first word of each docstring of a module."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split()
            if words:
                yield getattr(node, "lineno", 1), words[0]


def test_docstrings_open_with_no_question_word() -> None:
    found = []
    for file in sorted((ROOT / "mha_viz").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        found += [f"{name}:{line} {word}" for line, word in openings(file) if word in QUESTIONS]
    assert not found
