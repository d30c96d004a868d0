"""Texts of labs and pages: each call names a text that is there with its values, all are used."""

import ast
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from string import Formatter

import pytest

from mha_viz.learn.frame.texts import Texts, read_texts

ROOT = Path(__file__).parents[2]
LABS, PAGES = ROOT / "mha_viz" / "learn" / "labs", ROOT / "mha_viz" / "ui"
WITH_TEXTS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for folder in (LABS, PAGES)
    for path in folder.glob("*/texts.toml")
)
QUESTION = {"question", "options", "because", "wrong"}
LINES = {"title", "x_title", "y_title", "caption", "how_to_read"}
FURTHER = {"name", "note", "x_axis", "y_axis", "height", "tick_step"}
KINDS = {  # the required and the further texts that each method takes
    "step": ({"title", "statement"}, {"formula"}),
    "fold": ({"title"}, {"statement", "formula"}),
    "predict": (QUESTION, {"right"}),
    "question": (QUESTION, {"right"}),
    "lines": (LINES, FURTHER),
    "curves": (LINES, FURTHER),
    "figure": ({"name", "caption", "how_to_read"}, set()),
}
ARGUMENTS = {"formula", "right"}  # of methods, which are no values


def _texts(lab: str) -> Texts:
    return read_texts(lab.replace("/", "."))


def _calls(lab: str) -> list[tuple[str, list[str], ast.Call]]:
    """Method, possible names and call of each text of a lab; * is the computed part of a name."""
    found = []
    for path in (ROOT / lab).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and re.fullmatch(
                r"TEXTS(\.\w+)?", ast.unparse(node.func)
            ):
                method = node.func.attr if isinstance(node.func, ast.Attribute) else "text"
                first = method in ("fold", "predict", "choose", "curves", "row")
                last = None if method == "row" else first + 1
                names = [name for part in node.args[first:last] for name in _names(part)]
                if method in ("control", "choose", "row"):
                    names = [f"controls.{name}" for name in names]
                found.append((method, names, node))
    return found


def _names(name: ast.expr) -> list[str]:
    if isinstance(name, ast.IfExp):
        return _names(name.body) + _names(name.orelse)
    if isinstance(name, ast.JoinedStr):
        return ["".join(p.value if isinstance(p, ast.Constant) else "*" for p in name.values)]
    return [name.value if isinstance(name, ast.Constant) else "*"]


def _strings(table: dict, name: str = "") -> dict[str, list[str]]:
    """All texts by their names; the options of a question are one."""
    found: dict[str, list[str]] = {}
    for key, value in table.items():
        inner = f"{name}.{key}".lstrip(".")
        if isinstance(value, dict):
            found |= _strings(value, inner)
        else:
            found[inner] = [str(one) for one in (value if isinstance(value, list) else [value])]
    return found


def _matching(lab: str, method: str, name: str) -> dict[str, list[str]]:
    """The texts that a call takes."""
    every = _strings(_texts(lab).tables)
    taken = ".*" if name == "*" else re.escape(name).replace(r"\*", "[^.]+")
    if method in ("step", "fold", "predict", "question"):  # whose tables may hold more texts
        taken += rf"\.({'|'.join(KINDS[method][0] | KINDS[method][1])})"
    elif method in (*KINDS, "labels", "table", "control", "choose", "row"):
        taken += r"\.[^.]+"
    return {key: strings for key, strings in every.items() if re.fullmatch(taken, key)}


def _fields(strings: Iterable[str]) -> set[str]:
    fields = [field for s in strings for _, field, _, _ in Formatter().parse(s) if field]
    return {re.split(r"[.\[]", field)[0] for field in fields}


@pytest.mark.parametrize("lab", WITH_TEXTS)
def test_texts_calls_name_them_and_give_their_values(lab):
    for method, names, call in _calls(lab):
        given = {argument.arg for argument in call.keywords} - ARGUMENTS
        given = set() if method == "choose" else given  # arguments of the control
        known: set[str] = set()
        for name in names:
            texts = _matching(lab, method, name)
            assert texts, f"{lab}: no text {name}"
            plain = [texts[key] for key in texts if not key.endswith(".formula")]
            fields = _fields(chain.from_iterable(plain))
            assert "*" in name or None in given or fields <= given, (
                f"{lab}: {name} {fields - given}"
            )
            known |= fields
            if method in KINDS and "*" not in name:
                required, further = KINDS[method]
                required = required - ({"caption"} if lab.startswith("mha_viz/ui") else set())
                keys = {key.rpartition(".")[2] for key in texts}
                assert required <= keys <= required | further, f"{lab}: {name}: {keys}"
        assert given - {None} <= known, f"{lab}: {names}: {given - known}"


def _questions(table: dict) -> Iterable[dict]:
    tables = [one for one in table.values() if isinstance(one, dict)]
    return chain(
        [table] if "options" in table and "question" in table else [], *map(_questions, tables)
    )


@pytest.mark.parametrize("lab", [path.parent.name for path in LABS.glob("*/texts.toml")])
def test_question_says_of_each_wrong_option_why_it_fails(lab):
    questions = list(_questions(_texts(f"mha_viz/learn/labs/{lab}").tables))
    for question in questions:
        reasons = list(question["wrong"])
        if "right" in question:
            assert reasons.pop(question["right"]) == ""
        expected = len(question["options"]) - ("right" in question)
        assert len(set(filter(None, reasons))) == expected, question["question"]


def test_texts_fill_values_and_missing_text_or_value_are_named():
    texts = Texts(
        "some.toml",
        {"a": {"b": "{n} tokens, {x:number}, {x:.1f}, {x:.2g}", "formula": r"\frac{1}{n}"}},
    )
    assert texts("a.b", n=4, x=-1 / 3) == "4 tokens, −0.333, −0.3, −0.33"
    assert texts("a.formula") == r"\frac{1}{n}"
    with pytest.raises(ValueError, match=r"some.toml has no a\.c"):
        texts("a.c")
    with pytest.raises(ValueError, match=r"some.toml, a\.b: no value for 'n'"):
        texts("a.b", x=4)
