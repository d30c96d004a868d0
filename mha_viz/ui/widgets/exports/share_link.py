"""Things to hand out: a link, also as a QR code for phones, and printed sheets."""

import io
from collections.abc import Callable
from functools import partial

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.ui.state import own_address

_SIDE = 320  # pixels of the code: to be read from the middle of a room


def show_link(link: str, *, key: str) -> None:
    """Show the link, a warning where others cannot open it, and its QR code on request."""
    st.code(link, language=None, wrap_lines=True)
    problem = own_address.reached().problem
    if problem:
        st.markdown(f":material/warning: **Only you can open this link.** {problem}")
    if st.toggle("QR code", key=f"{key}-qr"):  # no popover: it may stand in one
        st.image(qr_svg(link), width=_SIDE, alt="The link above as a QR code")


def qr_svg(link: str) -> str:
    """Return a QR code as SVG, black on white with the margin that the standard asks for.

    A camera needs that margin in the dark theme, too. Raises ArgumentError: the link is longer than
    a QR code can hold.
    """
    import segno

    try:
        code = segno.make_qr(link, error="m", boost_error=False)
    except segno.DataOverflowError as error:
        raise ArgumentError(
            f"A QR code holds about 2,300 characters, and this link has {len(link):,}: copy the "
            "link instead, or choose a shorter text."
        ) from error
    drawing = io.BytesIO()
    code.save(drawing, kind="svg", scale=8, border=4, dark="#000", light="#fff", xmldecl=False)
    return drawing.getvalue().decode("utf-8")


def sheet_buttons(make: Callable[[bool], str], name: str, *, key: str) -> None:
    """Draw the downloads of a printed sheet and of its answers, which `make(True)` writes as HTML.

    `make` asks nothing of the page, and `name` is that of the file.
    """
    for label, answers in (("Sheet for pupils", False), ("Answers for teachers", True)):
        file, icon = f"{name}{'_answers' * answers}.html", ":material/print:"
        file_arguments, key_of = (partial(make, answers), file, "text/html"), f"{key}-{answers:d}"
        st.download_button(label, *file_arguments, key=key_of, on_click="ignore", icon=icon)
