"""A figure of a study on the page."""

from collections.abc import Callable
from typing import Any

from mha_viz.paper.figures import StudyFigure
from mha_viz.ui.many_texts import TEXTS
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures


def show(
    figure: StudyFigure,
    key: str,
    on_click: Callable[[Any], None] | None = None,
    on_lasso: Callable[[list[Any]], None] | None = None,
    **values: object,
) -> None:
    """Draw a figure of a study with its table, its files, and the text of its key."""
    reading = TEXTS(f"figures.{key}", **values)
    about: dict[str, Any] = {"table": figure.table, "caption": figure.caption}
    about |= {"name": figure.name, "how_to_read": reading, "paper": figure.image}
    drawn = figure.draw(dark=look.dark())
    figures.show(drawn, key=f"many-{key}", on_click=on_click, on_lasso=on_lasso, **about)
