"""The app's look beyond Streamlit's theme and the style of all pages: icon, type, sizes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.ui.operating.streamlit_run import script_component
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.web.labels import png_address

if TYPE_CHECKING:
    from mha_viz.plots.heatmap import ChartSize

# The server forgets a file as soon as the page that names it runs again.
ICON = png_address(Path(__file__).with_name("icon.png").read_bytes())
PROJECTOR = "projector"  # key of the switch, and its name in an address
ROOM = 350  # pixels that a phone leaves for a figure
# Larger type needs the room beside a page, which is measured in letters and would grow with it.
_PROJECTED = """<style>
html { font-size: %gpx; --mha-larger: %g; }
@media (min-width: 641px) {
  [data-testid="stMainBlockContainer"] { padding-left: 1.5rem; padding-right: 1.5rem; }
}
</style>"""


def heading(text: str) -> None:
    """Draw a page's title for those who hear it; the bar below takes its place on the screen."""
    with st.container(key="unseen-heading"):
        st.title(text, anchor=False)


def projector_switch() -> None:
    """Draw the switch for larger type, to be read from the last row of a class; once on a page."""
    if session().has_projector_switch:
        return
    session().has_projector_switch = True
    hint, on = "Larger type, to be read from the last row.", large()
    selection.control(PROJECTOR, st.toggle, "Projector", value=on, take=_enlarge, help=hint)


def projector() -> None:
    """Enlarge the type of a page where somebody has asked for it; figures follow.

    The browser remembers it: a page that is loaded again is as large as before.
    """
    session().has_projector_switch = False
    if session().is_projected is None and st.query_params.get(PROJECTOR) == "1":
        _enlarge(True)
    choice = session().is_projected
    memory = script_component("projector_memory")
    memory(key="projector-script", data={"on": choice}, on_remembered_change=_remember)
    if choice:
        st.html(_PROJECTED % (16 * selection.LARGER, selection.LARGER))


def _enlarge(on: bool) -> None:
    session().is_projected = on


@guarded
def _remember() -> None:
    _enlarge(True)


def large() -> bool:
    """Return whether this page is shown in larger type."""
    return bool(session().is_projected)


def beside(widths: int | Sequence[int], *parts: Callable[[], object]) -> None:
    """Draw parts beside each other, in so many columns or in columns of these widths."""
    for column, draw in zip(st.columns(widths, gap="medium"), parts, strict=True):
        with column:
            draw()


def dark() -> bool:
    """Return whether the visitor sees the dark theme."""
    return st.context.theme.type == "dark"


def square(side: int, width: int | None = None) -> "ChartSize":
    """Return sizes of a heatmap of square cells: at most `side` pixels, and fit for a phone.

    A page does not know its width; but phones, where it matters most, say that they are phones.
    `width` is what a narrow place leaves elsewhere.
    """
    return {"side": 300, "width": ROOM} if phone() else {"side": side, "width": width}


def phone() -> bool:
    """Return whether the visitor's browser says that it runs on a phone."""
    return "Mobi" in (st.context.headers.get("User-Agent") or "")
