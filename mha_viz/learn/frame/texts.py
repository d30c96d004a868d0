"""Texts of a lab on screen, which its texts.toml declares in the order of the page.

A table is a step (`title`, `statement`, and `formula` where there is one), a question (`question`,
`options`, `right`, `because`), the texts of a figure, or any strings. Values fill {placeholders},
and {size:number} writes a value as `format_number` does. A formula is LaTeX and holds none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, reduce
from importlib.resources import files
from string import Formatter
from typing import Any, NotRequired, TypedDict, cast

import streamlit as st

from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.web.theme import format_number


class FigureTexts(TypedDict):
    """Texts that `figures.show` takes."""

    name: str
    caption: str
    how_to_read: str


class LineTexts(TypedDict):
    """Texts that `charts.lines` takes."""

    title: str
    x_title: str
    y_title: str
    caption: str
    how_to_read: str
    name: NotRequired[str]
    note: NotRequired[str]


class _Filler(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "number":
            return format_number(value)
        return str(super().format_field(value, format_spec))


class Texts:
    """The texts of one lab; `texts("table.key", n=4)` is one of them, filled in."""

    def __init__(self, source: str, tables: Mapping[str, Any]) -> None:
        self.source, self.tables = source, tables

    def __call__(self, name: str, /, **values: object) -> str:
        """Return one text. Raises ValueError if it or one of its values is missing."""
        return cast(str, self._filled(name, self._at(name), values))

    def markdown(self, name: str, /, **values: object) -> None:
        """Draw one text."""
        st.markdown(self(name, **values))

    def caption(self, name: str, /, **values: object) -> None:
        """Draw one text in small type."""
        st.caption(self(name, **values))

    def labels(self, name: str) -> dict[str, str]:
        """Return a table of names for menus, by the keys of what they name."""
        return dict(self._at(name))

    def step(self, name: str, /, *, formula: str | None = None, **values: object) -> None:
        """Draw the beginning of a step; `formula` where it depends on the values."""
        title, statement = (self(f"{name}.{key}", **values) for key in ("title", "statement"))
        frame.step(title, statement, self._formula(name) if formula is None else formula)

    def predict(
        self, choices: Choices, name: str, /, *, right: int | None = None, **values: object
    ) -> None:
        """Draw a question; `right` is the number of the answer where it depends on the values."""
        question, because = (self(f"{name}.{key}", **values) for key in ("question", "because"))
        options = self._filled(name, self._at(f"{name}.options"), values)
        chosen = self._at(f"{name}.right") if right is None else right
        frame.predict(choices, name, question, options, chosen, because)

    def lines(self, name: str, /, **values: object) -> LineTexts:
        """Return the texts of a figure of lines."""
        return cast(LineTexts, self._table(name, values))

    def figure(self, name: str, /, **values: object) -> FigureTexts:
        """Return the texts of any other figure."""
        return cast(FigureTexts, self._table(name, values))

    def _formula(self, name: str) -> str:
        return self(f"{name}.formula") if "formula" in self._at(name) else ""

    def _at(self, name: str) -> Any:
        try:
            return reduce(lambda table, key: table[key], name.split("."), self.tables)
        except KeyError as error:
            raise ValueError(f"{self.source} has no {name}.") from error

    def _table(self, name: str, values: Mapping[str, object]) -> dict[str, Any]:
        """Return a table with all its strings filled in, less the tables inside of it."""
        strings = {key: text for key, text in self._at(name).items() if not isinstance(text, dict)}
        return {key: self._filled(f"{name}.{key}", text, values) for key, text in strings.items()}

    def _filled(self, name: str, text: Any, values: Mapping[str, object]) -> Any:
        if name.endswith(".formula"):
            return text.replace("\n", " ")
        if isinstance(text, list):
            return [self._filled(name, one, values) for one in text]
        try:
            return _Filler().vformat(text, (), values) if isinstance(text, str) else text
        except KeyError as error:
            raise ValueError(f"{self.source}, {name}: no value for {error}.") from error


@cache
def read_texts(package: str) -> Texts:
    """Read the texts.toml of a lab's package."""
    text = (files(package) / "texts.toml").read_text("utf-8")
    return Texts(f"{package}, texts.toml", tomllib.loads(text))
