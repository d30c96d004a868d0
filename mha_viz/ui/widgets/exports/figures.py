"""A Plotly figure with all that belongs to it: how to read it, its table, its files, clicks.

Importing it imports torch and plotly, so pages do it late.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Required, TypedDict, Unpack

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.offline import get_plotlyjs

from mha_viz.plots.cells import height_by_width
from mha_viz.plots.column_image import FORMATS
from mha_viz.plots.figure_file import captioned, enlarged, figure_html
from mha_viz.ui.operating.streamlit_run import serve
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports.downloads import data_and_page, download, safe_name
from mha_viz.ui.widgets.messages.notices import number_columns, plain
from mha_viz.web import theme
from mha_viz.web.browser import component_script, style

PaperImage = Callable[[str, str], bytes]  # takes format and width
PointIndex = tuple[int, int]  # a point of a figure: number of its trace, number in that trace
# Pictures are made by the Export menu, which puts the caption in them.
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["toImage"]}


class About(TypedDict, total=False):
    """Name, sentences, table and settings of a figure.

    - `name`: the figure's name in its files and to screen readers.
    - `how_to_read`: one or two sentences below the figure.
    - `table`: the figure's numbers, for "As a table" and CSV.
    - `caption`: model, text and settings, for the files.
    - `paper`: makes it for a paper, by format and width, where it can be.
    """

    name: Required[str]
    how_to_read: str
    table: Required[pd.DataFrame]
    caption: Required[str]
    paper: PaperImage


def show(
    figure: go.Figure,
    *,
    key: str,
    height: int | None = None,
    on_click: Callable[[Any], None] | None = None,
    on_lasso: Callable[[list[Any]], None] | None = None,
    explained: bool = True,
    **about: Unpack[About],
) -> None:
    """Draw a figure and what belongs to it. All texts are shown as they are, never as markup.

    - `figure`: drawn for the theme that the page has; it is not changed.
    - `height`: in pixels, where it should not be the figure's own.
    - `on_click`: takes the customdata of a clicked point, before the run that draws the figure
      again. Points without customdata do not answer. Opacities of markers must be single numbers.
    - `on_lasso`: takes the customdata of all points within a line that was drawn around them with
      the lasso among the figure's tools; nothing once the selection is cleared.
    - `explained`: False leaves `how_to_read` to screen readers, where figures share one caption.
    """
    alt = f"{about['name']}. {about['how_to_read']}"
    answers: dict[str, Any] = {"on_click": on_click, "on_lasso": on_lasso}
    drawn = chart(figure, key=key, alt=alt, height=height, **answers)
    if not explained:
        about["how_to_read"] = ""
    explain(lambda: drawn, key=key, **about)


def chart(
    figure: go.Figure,
    *,
    key: str,
    alt: str,
    height: int | None = None,
    on_click: Callable[[Any], None] | None = None,
    on_lasso: Callable[[list[Any]], None] | None = None,
    tools: bool = True,
) -> go.Figure:
    """Draw a figure alone: as wide as its column, in larger type where the page has that."""
    drawn = _prepared(figure, height, on_click is not None, look.dark())
    _follow_width(key, figure, drawn)
    modes = ("points",) if on_lasso is None else ("points", "lasso")
    options: dict[str, Any] = {"theme": None, "selection_mode": modes, "alt": alt}
    options["config"] = _CONFIG | dict(displayModeBar="hover" if tools else False)
    st.plotly_chart(
        drawn,
        key=key,
        on_select="ignore" if on_click is None else _listener(key, drawn, on_click, on_lasso),
        **options,
    )
    return drawn


def explain(
    figure: Callable[[], go.Figure],
    *,
    key: str,
    title: str = "As a table",
    draw: Callable[[], object] | None = None,
    **about: Unpack[About],
) -> None:
    """Draw what stands below a picture: how to read it, its numbers and its files.

    `figure` is called when somebody opens Export; `draw` draws the numbers in place of the table.
    """
    table, name, caption = about["table"], about["name"], about["caption"]
    if how_to_read := about.get("how_to_read"):
        reading(how_to_read)
    dark = look.dark()

    def rows() -> None:
        options: dict[str, Any] = {"hide_index": isinstance(table.index, pd.RangeIndex)}
        options |= {"placeholder": "not defined", "column_config": number_columns(table)}
        st.dataframe(table, key=f"{key}-rows", **options)

    def files() -> None:
        file, drawn = safe_name(name, "figure"), figure()
        with st.container(gap="xsmall"):
            picture = captioned(drawn, caption, dark=dark, title=name)
            figure_download(picture, file_name=file, key=f"{key}-pictures")
            page = partial(figure_html, drawn, title=name, caption=caption, dark=dark)
            data_and_page(file, table, f"{name}\n{caption}", page, key=key)
            if "paper" in about:
                _paper_downloads(about["paper"], file, key)

    # A fragment: opening the table or the files does not draw the page again.
    fragment(lazy_sections.table_and_export)(key, draw or rows, files, title)


def _paper_downloads(paper: PaperImage, file: str, key: str) -> None:
    """Draw buttons for vector files as wide as one column of a paper, or as two."""
    for width, words in (("single", "one column"), ("double", "two columns")):
        with st.container(horizontal=True, gap="xsmall"):
            for kind in FORMATS:
                label, name = f"{kind.upper()}, {words}", f"{file}_{width}.{kind}"
                make = partial(paper, kind, width)
                download(label, name, make, key=f"{key}-{width}-{kind}")


def reading(text: str) -> None:
    """Say below a figure, or below several, how to read it."""
    st.caption(f"**How to read.** {plain(text)}")


def _prepared(figure: go.Figure, height: int | None, clickable: bool, dark: bool) -> go.Figure:
    """Return a figure of the height asked for, in which a click dims nothing."""
    grown = enlarged(figure) if look.large() else figure
    # Changed as plain dictionaries, because plotly checks the whole figure at every change.
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


def _follow_width(key: str, figure: go.Figure, drawn: go.Figure) -> None:
    """Keep cells square: where there is less width, the chart gets lower, too.

    In CSS, because a page does not know its width. The chart fills the element that Streamlit
    gave its class; that element is as high as `height_by_width` says.
    """
    width_rule = height_by_width(figure)
    if width_rule is None:
        return
    share, more = width_rule
    more *= drawn.layout.height / figure.layout.height  # of larger type
    st.html(
        f"<style>.st-key-{key} {{ position: relative; box-sizing: content-box;"
        f" height: auto !important; flex: none !important; aspect-ratio: {1 / share:.6g};"
        f" max-height: {drawn.layout.height - more:.0f}px; padding-bottom: {more:.0f}px; }}"
        f" .st-key-{key} > * {{ position: absolute; inset: 0; }}</style>"
    )


def _bright(trace: dict[str, Any], ink: str) -> dict[str, Any]:
    """Set an opacity: plotly fades what is not selected to a fifth, unless it is given one."""
    if trace["type"] not in ("scatter", "scattergl", "bar"):
        return {}
    marker, colour = trace.get("marker", {}), trace.get("textfont", {}).get("color")
    opacity = marker.get("opacity")
    if not isinstance(opacity, int | float):
        bubbles = not isinstance(marker.get("size"), int | float | None)
        opacity = 0.7 if bubbles else 1.0  # plotly's defaults
    unselected = trace.get("unselected", {}).get("marker", {}).get("opacity")
    if unselected == opacity and "text" not in trace:
        return {}
    text = dict(color=colour if isinstance(colour, str) else ink)
    return dict(unselected=dict(marker=dict(opacity=opacity), textfont=text))


def _listener(
    key: str,
    drawn: go.Figure,
    on_click: Callable[[Any], None],
    on_lasso: Callable[[list[Any]], None] | None = None,
) -> Callable[[], None]:
    """Return the callback of a changed selection, called before the run that the change causes.

    The selection itself would stay for all later runs; here it becomes an event. The browser says
    which point of the drawn figure was clicked; the data come from the figure, not the browser.
    """

    @guarded
    def listen() -> None:
        event = from_browser(key)
        before, now = session().selected.get(key, []), _selected_points(event)
        session().selected[key] = now
        if on_lasso is not None and (not now or _is_lasso(event)):
            points = [_customdata(drawn, clicked) for clicked in now]
            on_lasso([point for point in points if point is not None])
            return
        clicked = newly_clicked(before, now)
        data = None if clicked is None else _customdata(drawn, clicked)
        if data is not None:
            on_click(data)

    return listen


def _is_lasso(event: Any) -> bool:
    """Return whether points were selected by a line around them: anyone can send anything."""
    try:
        return bool(event["selection"]["lasso"])
    except (TypeError, KeyError):
        return False


def newly_clicked(before: list[PointIndex], now: list[PointIndex]) -> PointIndex | None:
    """Return the point whose click turned one selection into the other.

    A second click on a point takes it out of the selection, and is a click all the same.
    """
    added = [point for point in now if point not in before]
    if added or now:
        return (added or now)[-1]
    return before[0] if len(before) == 1 else None


def _selected_points(event: Any) -> list[PointIndex]:
    """Return the selected points that the browser named: anyone can send anything."""
    try:
        points = [
            (point["curve_number"], point["point_index"]) for point in event["selection"]["points"]
        ]
    except (TypeError, KeyError):
        return []
    return [point for point in points if all(type(i) is int and i >= 0 for i in point)]


def _customdata(figure: go.Figure, curve_and_point: PointIndex) -> Any:
    """Return what the figure says about a point, in plain Python; None where it says nothing."""
    curve, point = curve_and_point
    try:
        value = figure.data[curve].customdata[point]
    except (IndexError, TypeError):  # a place that is not there, a trace without customdata
        return None
    return value.tolist() if hasattr(value, "tolist") else value


_download = st.components.v2.component(
    "mha_viz.figure_download", css=style("figure_download"), js=component_script("figure_download")
)


def figure_download(figure: go.Figure, *, file_name: str, key: str) -> None:
    """Draw the two buttons.

    The figure travels to the browser with them, so draw them only where somebody may click. The
    library of 4.6 MB follows at a click, and only where the page has none that can be used.
    """
    plotly = serve(_library, "text/javascript", "mha_viz.plotly_js")
    _download(key=key, data={"figure": figure.to_json(), "plotly": plotly, "name": file_name})


@cache
def _library() -> bytes:
    return get_plotlyjs().encode("utf-8")
