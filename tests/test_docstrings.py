"""Docstrings say what the caller gets: in their first words, and in sections of public names."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from docs.reference_page import public_names

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


# Results of functions, which check what they are given and name the sources.
RESULTS = frozenset(
    """ModelInfo QueryKeyMap FlowGraph PredictionGraph PatchingMap Faithfulness AttentionOutput
    Token Study HeadProbe StudySet""".split()
)
# Loading, holding, drawing and putting into words: no paper defines them.
NO_SOURCE = RESULTS | frozenset(
    """AttentionModel AttentionRecord Writing capture describe describe_heads generate list_models
    load record register_metric show_head wrap""".split()
)
NOTHING_TO_REFUSE = RESULTS | {"list_models", "describe_heads", "head_report"}


@pytest.mark.parametrize("name", public_names())
def test_public_name_has_every_section(name: str) -> None:
    value = getattr(mv, name)
    doc = inspect.getdoc(value) or ""
    wanted = {"Args": bool(inspect.signature(value).parameters)}
    if not inspect.isclass(value):
        wanted["(Returns|Yields)"] = True
    wanted["Raises"] = name not in NOTHING_TO_REFUSE
    for section, is_wanted in wanted.items():
        found = re.search(rf"^{section}:\n {{4}}\S", doc, re.M)
        assert (found is not None) == is_wanted, f"{name}: {section}"
    assert bool(re.search(r"^Source: \S", doc, re.M)) == (name not in NO_SOURCE), name
    assert re.search(r"^>>> ", doc, re.M), f"{name}: an example"


@pytest.mark.parametrize("name", public_names())
def test_public_arrays_have_their_axes_written(name: str) -> None:
    """Shapes stand in the types of a result's fields, and of a returned array in words."""
    value = getattr(mv, name)
    if name in RESULTS and dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert re.search(r"\[(np.)?(Tensor|ndarray)", str(field.type)) or not re.search(
                r"Tensor|ndarray", str(field.type)
            ), field
    returned = str(inspect.signature(value).return_annotation)
    if not inspect.isclass(value) and "Float[" in returned:
        section = re.search(r"^Returns:\n((?: {4}.*\n|\n)+)", inspect.getdoc(value) or "", re.M)
        assert section and re.search(r"\([*\w]+( \* \w+)?(, \w+( \* \w+)?)+\)", section[1]), name


@pytest.mark.parametrize("metric", mv.METRICS.values(), ids=list(mv.METRICS))
def test_metric_has_every_section(metric: Any) -> None:
    doc = inspect.getdoc(metric.function) or ""
    for said in (r"\bReturns\b", r"\bSource:\s\S", r"(?m)^>>> "):
        assert re.search(said, doc), (metric.key, said)
