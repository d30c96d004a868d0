"""Texts of a lab on screen, which its texts.toml declares in the order of the page.

A table is a step (`title`, `statement`, and `formula` where there is one), a question (`question`,
`options`, `right`, `because`, and `wrong`: why each option fails), the texts of a figure (with
`x_axis`, `y_axis` and `height` where it is one of lines, and its `lines` and `columns`), a control
(`controls.NAME`: the `kind` is a method of `Choices`, the rest its arguments), or any strings.
Values fill {placeholders}, and {size:number} writes a value as `format_number` does. A formula is
LaTeX and holds none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.learn.frame import charts, layout, questions
from mha_viz.learn.frame.charts import FigureTexts
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.questions import Cover, Question
from mha_viz.ui.widgets.messages import texts
from mha_viz.ui.widgets.messages.notices import continue_on_error


class Texts(texts.Texts):
    """The texts of one lab; `texts("table.key", n=4)` is one of them, filled in."""

    def markdown(self, name: str, /, **values: object) -> None:
        """Draw one text."""
        st.markdown(self(name, **values))

    def header(self, name: str, /, **values: object) -> None:
        """Draw one text as a heading."""
        st.header(self(name, **values), anchor=False)

    def caption(self, name: str, /, **values: object) -> None:
        """Draw one text in small type."""
        st.caption(self(name, **values))

    def step(self, name: str, /, *, formula: str | None = None, **values: object) -> None:
        """Draw the beginning of a step; `formula` where it depends on the values."""
        title, statement = (self(f"{name}.{key}", **values) for key in ("title", "statement"))
        if formula is None and "formula" in self._at(name):
            formula = self(f"{name}.formula")
        layout.step(title, statement, formula or "")

    def fold(
        self,
        choices: Choices,
        name: str,
        draw: Callable[[], object] = lambda: None,
        /,
        **values: object,
    ) -> None:
        """Draw a step in a fold: its statement and formula, if any, and what `draw` draws.

        An error in it is said there, and what stands below the fold is drawn all the same.
        """

        def content() -> None:
            with continue_on_error():
                if "statement" in self._at(name):
                    self.markdown(f"{name}.statement", **values)
                if "formula" in self._at(name):
                    st.latex(self(f"{name}.formula"))
                draw()

        layout.fold(choices, name, self(f"{name}.title", **values), content)

    def question(self, name: str, /, *, right: int | None = None, **values: object) -> Question:
        """Return a question; `right` is the number of the answer where it depends on the values."""
        table = self._at(name)
        texts = {key: self(f"{name}.{key}", **values) for key in ("question", "because")}
        options, wrong = (
            tuple(self._filled(f"{name}.{key}", table[key], values)) for key in ("options", "wrong")
        )
        number = table["right"] if right is None else right
        return Question(**texts, options=options, right=number, wrong=wrong)

    def predict(
        self, choices: Choices, name: str, /, *, right: int | None = None, **values: object
    ) -> Cover:
        """Draw a question, and return the cover of the figures that answer it."""
        return questions.predict(choices, name, self.question(name, right=right, **values))

    def opening(
        self, choices: Choices, name: str, widths: Sequence[int] = (1, 1), /, **values: Any
    ) -> tuple[Cover, DeltaGenerator, DeltaGenerator]:
        """Draw a lab's first question in a column, beside one for the figure that answers it.

        Returns:
            The cover of that figure, the column of the question, and that of the figure.
        """
        question_column, figure_column = st.columns(widths, gap="medium")
        with question_column:
            return self.predict(choices, name, **values), question_column, figure_column

    def choose(self, choices: Choices, name: str, /, **arguments: Any) -> Any:
        """Draw the control that `controls.NAME` declares, and return what is chosen.

        `options` may name a table of labels. With `frames` and `played` (what is played, to screen
        readers) a button beside the control leads it through these values. `arguments` are those
        that depend on other choices.
        """
        table = self._at(f"controls.{name}")
        declared = {key: self._filled(f"controls.{name}.{key}", table[key], {}) for key in table}
        declared |= arguments
        kind, frames, played = (declared.pop(key, None) for key in ("kind", "frames", "played"))
        if isinstance(declared.get("options"), str):
            declared["options"] = self.labels(declared["options"])
        value = getattr(choices, kind)(name, **declared)
        if frames:
            choices.play(name, value, frames, played)
        return value

    def table(self, name: str, rows: Sequence[Sequence[object]], /, **values: object) -> Any:
        """Return a table of rows, whose columns a table of labels declares."""
        import pandas as pd

        columns = list(self._table(name, values).values())
        return pd.DataFrame(rows, columns=columns if rows else None)

    def row(self, choices: Choices, *names: str) -> tuple[Any, ...]:
        """Draw declared controls on one line, and return what is chosen."""
        with layout.row():
            return tuple(self.choose(choices, name) for name in names)

    def curves(
        self,
        choices: Choices,
        name: str,
        table: Any,
        axes: Mapping[str, Any] = MappingProxyType({}),
        /,
        **values: object,
    ) -> None:
        """Draw a figure of lines from the columns of a table, over its first one.

        `NAME.lines` names the columns that are drawn; if there is none, all are, by their own
        names. `NAME.columns` names those that the table below has, too, or calls otherwise. With
        `NAME.tick_step` the x axis names every so many of its values and nothing between them.
        `axes` are those that depend on numbers: see `LineAxes`; its `bands` are by column.
        """
        from mha_viz.plots.curves import ticks

        x, *columns = table.columns
        labels = self._at(name).get("lines") or {column: column for column in columns}
        headers = labels | self._at(name).get("columns", {})
        bands = axes.get("bands", {})
        options = {**axes, "bands": {labels[key]: band for key, band in bands.items()}}
        options |= self.lines(name, **values)
        if step := options.pop("tick_step", 0):
            options["more"] = {**options.get("more", {}), "xaxis": ticks(list(table[x])[::step])}
        charts.lines(
            choices.key(name),
            {label: table[key] for key, label in labels.items()},
            x=table[x],
            table=table[[x, *(key for key in headers if key != x)]].rename(columns=headers),
            **options,
        )

    def lines(self, name: str, /, **values: object) -> dict[str, Any]:
        """Return the texts of a figure of lines, and how its axes are, for `charts.lines`."""
        return self._table(name, values)

    def figure(self, name: str, /, **values: object) -> FigureTexts:
        """Return the texts of any other figure."""
        return cast(FigureTexts, self._table(name, values))

    def _filled(self, name: str, text: Any, values: Mapping[str, object]) -> Any:
        if name.endswith(".formula"):
            return text.replace("\n", " ")
        return super()._filled(name, text, values)


@cache
def read_texts(package: str) -> Texts:
    """Read the texts.toml of a lab's package."""
    return texts.read_texts(package, Texts)
