"""One Plotly figure with all that belongs to it: how to read it, its table, its files, a click.

Importing it imports torch and plotly, so pages do it late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from mha_viz.plots.csv_file import table_csv
from mha_viz.plots.figure_file import captioned, figure_html
from mha_viz.plots.larger import larger
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets import folded, look, messages
from mha_viz.ui.widgets.exports import safe_name
from mha_viz.ui.widgets.figure_download import figure_download
from mha_viz.ui.widgets.messages import plain
from mha_viz.web import theme

Place = tuple[int, int]  # a point of a figure: number of its trace, number in that trace
# Pictures are made by the Export menu, which puts the caption in them.
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["toImage"]}


@dataclass(frozen=True)
class _Exports:
    """What the table and the files are made from, whenever that is."""

    figure: Callable[[], go.Figure]
    table: pd.DataFrame
    name: str
    caption: str
    dark: bool
    key: str
    title: str = "As a table"
    draw: Callable[[], None] | None = None


def show(
    figure: go.Figure,
    *,
    key: str,
    how_to_read: str,
    table: pd.DataFrame,
    caption: str,
    name: str,
    height: int | None = None,
    clickable: bool = False,
    on_click: Callable[[Any], None] | None = None,
    alt: str | None = None,
) -> Any:
    """Draw a figure; return the customdata of the point that was just clicked, else None.

    A click comes back in exactly one run: in a fragment, the run of that fragment. Points without
    customdata do not answer. All texts are shown as they are, never read as markup.

    Args:
        figure: drawn for the theme that the page has; it is not changed.
        key: unique in the app.
        how_to_read: one or two sentences below the figure.
        table: the figure's numbers, for "As a table" and CSV.
        caption: model, text and settings, for the files.
        name: what the figure is called, in words: in its files, their names, and to screen readers.
        height: in pixels, where it should not be the figure's own.
        clickable: whether clicks come back. Opacities of markers must then be single numbers.
        on_click: takes the customdata instead, before the run that draws the figure again, so
            that this figure can already show what was chosen.
        alt: what a screen reader says; else the name and how to read it.
    """
    dark = look.dark()
    clickable = clickable or on_click is not None
    drawn = _prepared(figure, height, clickable, dark)
    st.plotly_chart(
        drawn,
        theme=None,
        key=key,
        alt=alt or f"{name}. {how_to_read}",
        selection_mode="points",
        on_select=_listener(key, drawn, on_click) if clickable else "ignore",
        config=_CONFIG,
    )
    explain(
        lambda: drawn, key=key, how_to_read=how_to_read, table=table, caption=caption, name=name
    )
    return st.session_state.pop(f"{key}-clicked", None)


def explain(
    figure: Callable[[], go.Figure],
    *,
    key: str,
    how_to_read: str,
    table: pd.DataFrame,
    caption: str,
    name: str,
) -> None:
    """What stands below a picture; arguments as for `show`.

    Args:
        figure: makes the picture as a figure, for the files; called when somebody opens Export.
    """
    st.caption(f"**How to read.** {plain(how_to_read)}")
    _below(_Exports(figure, table, name, caption, look.dark(), key))


def numbers_and_files(
    figure: Callable[[], go.Figure],
    *,
    key: str,
    table: pd.DataFrame,
    caption: str,
    name: str,
    title: str,
    draw: Callable[[], None],
) -> None:
    """What stands below a picture that says itself how to read it; arguments as for `explain`.

    Args:
        table: for the files only.
        title, draw: what there is in place of "As a table"; drawn while it is open.
    """
    _below(_Exports(figure, table, name, caption, look.dark(), key, title, draw))


# -- below the figure ------------------------------------------------------------------------------


@st.fragment
def _below(exports: _Exports) -> None:
    """Table and files. A fragment of its own: opening one of them does not draw the page again.

    What is inside is made, and sent to the browser, only while it is open.
    """
    # An open table needs all of a phone's width.
    beside = not st.session_state.get(f"{exports.key}-table")
    with st.container(horizontal=beside, horizontal_alignment="left" if beside else "right"):
        _table(exports)
        _export(exports)


def _table(exports: _Exports) -> None:
    with st.expander(exports.title, on_change="rerun", key=f"{exports.key}-table") as expander:
        if expander.open and exports.draw is not None:
            with messages.stop_on_error():
                exports.draw()
        elif expander.open:
            counted = isinstance(exports.table.index, pd.RangeIndex)
            st.dataframe(
                exports.table,
                hide_index=counted,
                key=f"{exports.key}-rows",
                placeholder="not defined",
            )


def _export(exports: _Exports) -> None:
    popover = st.popover(
        "Export",
        icon=":material/download:",
        width="content",
        on_change="rerun",
        key=f"{exports.key}-export",
    )
    with popover, st.container(gap="xsmall"):
        if not popover.open:
            st.caption(folded.WAIT)
            return
        file = safe_name(exports.name, "figure")
        figure = exports.figure()
        picture = captioned(figure, exports.caption, dark=exports.dark, title=exports.name)
        figure_download(picture, file_name=file, key=f"{exports.key}-pictures")
        with st.container(horizontal=True, gap="xsmall"):
            for label, make, mime in _files(exports, figure):
                st.download_button(
                    label,
                    make,
                    f"{file}.{label.lower()}",
                    mime,
                    key=f"{exports.key}-{label}",
                    on_click="ignore",
                    width="stretch",
                )


def _files(
    exports: _Exports, figure: go.Figure
) -> tuple[tuple[str, Callable[[], str | bytes], str], ...]:
    """Label, maker and type; a maker runs outside of the page, so it asks nothing of the page."""
    return (
        ("CSV", lambda: table_csv(exports.table, f"{exports.name}\n{exports.caption}"), "text/csv"),
        (
            "HTML",
            lambda: figure_html(
                figure, title=exports.name, caption=exports.caption, dark=exports.dark
            ),
            "text/html",
        ),
    )


# -- clicks ----------------------------------------------------------------------------------------


def _prepared(figure: go.Figure, height: int | None, clickable: bool, dark: bool) -> go.Figure:
    """A figure of the asked height, in which a click dims nothing."""
    grown = larger(figure) if look.large() else figure
    # changed as plain dictionaries: plotly checks a whole figure with every change of its own
    traces = [trace.to_plotly_json() for trace in grown.data]
    layout = grown.layout.to_plotly_json()
    news: dict[str, Any] = {} if height is None else dict(height=height)
    bright: list[dict[str, Any]] = [{} for _ in traces]
    if clickable:
        ink = layout.get("font", {}).get("color", theme.ink(dark))
        bright = [_bright(trace, ink) for trace in traces]
        if not layout.get("dragmode"):
            news["dragmode"] = "zoom"  # Streamlit's would be "pan"
    if not news and not any(bright):
        return grown
    traces = [trace | more for trace, more in zip(traces, bright, strict=True)]
    return go.Figure(dict(data=traces, layout=layout | news))


def _bright(trace: dict[str, Any], ink: str) -> dict[str, Any]:
    """Plotly fades what is not selected to a fifth, unless it is told an opacity."""
    if trace["type"] not in ("scatter", "scattergl", "bar"):
        return {}
    marker, colour = trace.get("marker", {}), trace.get("textfont", {}).get("color")
    opacity = marker.get("opacity")
    if not isinstance(opacity, int | float):
        bubbles = not isinstance(marker.get("size"), int | float | None)
        opacity = 0.7 if bubbles else 1.0  # plotly's defaults
    told = trace.get("unselected", {}).get("marker", {}).get("opacity")
    if told == opacity and "text" not in trace:
        return {}
    text = dict(color=colour if isinstance(colour, str) else ink)
    return dict(unselected=dict(marker=dict(opacity=opacity), textfont=text))


def _listener(
    key: str, drawn: go.Figure, on_click: Callable[[Any], None] | None
) -> Callable[[], None]:
    """Called when the selection changed, before the run which that causes.

    The selection itself would stay for all later runs; here it becomes an event. The browser says
    which point of the drawn figure it was; the data come from that figure, not from the browser.
    """

    @guarded
    def listen() -> None:
        before = st.session_state.get(f"{key}-selected", [])
        now = _places(st.session_state.get(key))
        st.session_state[f"{key}-selected"] = now
        place = newly_clicked(before, now)
        data = None if place is None else _customdata(drawn, place)
        if data is not None and on_click is not None:
            on_click(data)
        elif data is not None:
            st.session_state[f"{key}-clicked"] = data

    return listen


def newly_clicked(before: list[Place], now: list[Place]) -> Place | None:
    """The point whose click turned one selection into the other.

    A second click on a point takes it out of the selection, and is a click all the same.
    """
    added = [place for place in now if place not in before]
    if added or now:
        return (added or now)[-1]
    return before[0] if len(before) == 1 else None


def _places(event: Any) -> list[Place]:
    """The selected points that the browser named: anyone can send anything."""
    try:
        points = [
            (point["curve_number"], point["point_index"]) for point in event["selection"]["points"]
        ]
    except (TypeError, KeyError):
        return []
    return [
        (curve, point)
        for curve, point in points
        if type(curve) is int and type(point) is int and min(curve, point) >= 0
    ]


def _customdata(figure: go.Figure, place: Place) -> Any:
    """What the figure says about a point, in plain Python; None where it says nothing."""
    curve, point = place
    try:
        value = figure.data[curve].customdata[point]
    except (IndexError, TypeError):  # a place that is not there, a trace without customdata
        return None
    return value.tolist() if hasattr(value, "tolist") else value
