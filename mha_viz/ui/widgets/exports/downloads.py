"""Files and links to keep: PNG, SVG, CSV, HTML, the record, and this view's address."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes
from mha_viz.core.record import file as record_file
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_tiles
from mha_viz.plots.frame import MASKED, where_visible
from mha_viz.plots.heatmap import head_html
from mha_viz.plots.printed import (
    WIDTHS_MM,
    PrintOptions,
    printed_grid_and_head,
    printed_head,
    printed_lines,
)
from mha_viz.plots.static import TILE, tiles_of
from mha_viz.plots.table_text import (
    CELL_BYTES,
    MOST_UNASKED,
    commented_csv,
    table_csv,
    table_latex,
    table_markdown,
)
from mha_viz.ui.operating.streamlit_run import serve
from mha_viz.ui.run import scene as scenes
from mha_viz.ui.state import links, own_address, selection
from mha_viz.ui.state.views import HeadsView, View
from mha_viz.ui.widgets.controls import lazy_sections, token_window
from mha_viz.ui.widgets.exports.share_link import show_link
from mha_viz.ui.widgets.messages import words
from mha_viz.web.payload import MAX_SIDE
from mha_viz.web.standalone import grid_html

BINARY = "application/octet-stream"
MIME = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
MIME |= {"csv": "text/csv", "html": "text/html"}
MAX_EXACT = 16 * 2**20  # bytes of weights that Streamlit holds for a page, as a file
T = TypeVar("T")
Urls = list[str]
GridBytes = Callable[[scenes.Scene, AttentionRecord], bytes]


def exact_url(record: AttentionRecord, urls: Urls) -> str | None:
    """Return where the browser finds the exact float32 weights, once somebody points at one.

    The grid itself has one byte per weight; the exact numbers follow on demand. Streamlit forgets
    a file when the page runs again, so `urls` holds the address of one run.
    """
    small = record.patterns.n_bytes <= MAX_EXACT and max(record.shape[2:]) <= MAX_SIDE
    if small and not urls:
        url = serve(lambda: record.pattern.numpy().tobytes(), BINARY, "mha_viz.exact_weights")
        urls += [] if url is None else [url]
    return urls[0] if urls else None


def menu(scene: scenes.Scene, grid: GridBytes) -> None:
    """Draw downloads and the link, made only when they are asked for."""
    with st.container(width="content"):
        lazy_sections.popover(*lazy_sections.EXPORT, "export", lambda: _files(scene, grid))
    link_menu()


def link_menu() -> None:
    """Draw the link to this view."""
    with st.container(width="content"):
        lazy_sections.popover("Link", ":material/link:", "link", _link)


def _files(scene: scenes.Scene, grid: GridBytes) -> None:
    view = selection.of(HeadsView)
    head = words.head_name(*view.chosen).replace(" ", "_")
    name = f"{safe_name(scene.record.model, 'model')}_{head}"

    def of(make: Callable[[AttentionRecord], str | bytes]) -> Callable[[], str | bytes]:
        # Streamlit keeps the function that makes a file. It must not hold the record.
        return lambda: make(scenes.displayed_record(scene, view))

    def all_html(record: AttentionRecord) -> str:
        chosen, scale, drawn = view.chosen, view.scale, grid(scene, record)
        title, line = f"All heads of {record.model}", caption(record, view)
        return grid_html(drawn, selected=chosen, scale=scale, title=title, caption=line)

    files: tuple[tuple[str, str, Callable[[AttentionRecord], str | bytes]], ...] = (
        ("Head as CSV", "csv", lambda record: csv(record, view)),
        ("Head as HTML", "html", head_file(head_html, view)),
        ("All heads as HTML", "all.html", all_html),
        ("Record file", "safetensors", _record_file),
    )  # fmt: skip
    _pictures(view, name, of)
    columns = st.columns([6, 5], gap="xxsmall")  # low enough to open within a laptop's window
    for i, (label, suffix, make) in enumerate(files):
        with columns[i % 2]:
            if suffix == "csv" and not _csv_confirmed(scenes.displayed_record(scene, view), view):
                continue
            download(label, f"{name}.{suffix}", of(make), key=f"get_{suffix}")


def _pictures(view: HeadsView, name: str, of: Callable[..., Callable[[], str | bytes]]) -> None:
    """Draw the downloads of a picture: what is drawn and how wide, and a button for each format."""
    pictures = {"view": "This view", "all": "Grid and head"}
    look: dict[str, Any] = {"required": True, "label_visibility": "collapsed"}
    picture = st.segmented_control(
        "Picture",
        list(pictures),
        default="view",
        format_func=pictures.__getitem__,
        key="export-picture",
        **look,
    )
    width_mm = st.segmented_control(
        "Width",
        WIDTHS_MM,
        default=WIDTHS_MM[0],
        format_func="{} mm".format,
        key="export-width",
        **look,
    )
    with st.container(horizontal=True, gap="xsmall"):
        for file_format in ("png", "svg", "pdf"):
            form = PrintOptions(width_mm=width_mm, file_format=file_format, scale=view.scale)
            make = of(partial(_picture, view=view, with_grid=picture == "all", form=form))
            file = f"{name}_{width_mm}mm.{file_format}"
            download(
                file_format.upper(), file, make, key=f"get_{file_format}", icon=":material/image:"
            )


def _picture(
    record: AttentionRecord, view: HeadsView, with_grid: bool, form: PrintOptions
) -> bytes:
    """Return the picture that the page shows, or the grid with the head beside it, as a file."""
    shown, weights, is_visible = token_window.shown_head(record, view.chosen, view)
    title = words.head_name(*view.chosen)
    options = replace(form, title=title, caption=caption(record, view))
    if with_grid:
        tiles = tiles_of(record.tiles(TILE).numpy(), visible_tiles(record, TILE))
        head = weights, shown.labels, view.chosen
        numbers = record.layer_numbers
        return printed_grid_and_head(
            tiles, *head, options, visible=is_visible, layer_numbers=numbers
        )
    if view.show != "lines":
        return printed_head(weights, shown.labels, options, visible=is_visible)
    heads = [view.chosen, *(head for head in view.heads if head != view.chosen)]
    patterns = np.stack([token_window.shown_head(record, head, view)[1] for head in heads])
    names = [words.head_name(*head) for head in heads]
    return printed_lines(patterns, shown.labels, names, options, share=view.mass)


def _csv_confirmed(record: AttentionRecord, view: HeadsView) -> bool:
    """Return whether a head's table may be written; ask first where it has very many weights."""
    n_rows, n_columns = map(len, view.shown(*record.shape[2:]))
    if n_rows * n_columns <= MOST_UNASKED:
        return True
    # What a causal mask hides is an empty cell.
    half = record.causal and not view.window
    n_weights = n_rows * (n_rows + 1) // 2 if half else n_rows * n_columns
    size = of_bytes(CELL_BYTES * n_weights + n_rows * n_columns - n_weights)
    label = f"CSV of {n_rows:,} rows × {n_columns:,} weights, about {size}"
    return st.checkbox(label, key=f"large-{n_weights}")


def download(
    label: str, file: str, make: Callable[[], str | bytes], *, key: str, icon: str | None = None
) -> None:
    """Draw a button that makes a file when it is clicked; `make` asks nothing of the page."""
    mime = MIME.get(file.rpartition(".")[2], BINARY)
    width: Literal["stretch", "content"] = "stretch" if icon is None else "content"
    st.download_button(label, make, file, mime, key, on_click="ignore", icon=icon, width=width)


def data_and_page(
    file: str, table: pd.DataFrame, caption: str, html: Callable[[], str], *, key: str
) -> None:
    """Draw buttons for the numbers, and for the picture as a page of its own."""
    with st.container(horizontal=True, gap="xsmall"):
        _tables(file, table, caption, key)
        download("HTML", f"{file}.html", html, key=f"{key}-HTML")


def table_file(table: pd.DataFrame, *, key: str, name: str, caption: str) -> None:
    """Draw a menu for the numbers of a table that has no figure, with their source."""
    file, heading = safe_name(name, "table"), f"{name}\n{caption}"
    tables = partial(_tables, file, table, heading, key)
    with st.container(width="content"):
        lazy_sections.popover(*lazy_sections.EXPORT, f"{key}-export", tables)


def _tables(file: str, table: pd.DataFrame, caption: str, key: str) -> None:
    """Draw a button for each file form of a table."""
    forms: tuple[tuple[str, str, Callable[[pd.DataFrame, str], str | bytes]], ...] = (
        ("CSV", "csv", table_csv), ("Markdown", "md", table_markdown), ("LaTeX", "tex", table_latex)
    )  # fmt: skip
    for label, suffix, write in forms:
        make = partial(write, table, caption)
        download(label, f"{file}.{suffix}", make, key=f"{key}-{label}")


def _link() -> None:
    view = selection.of(View)
    if links.long_values(view):
        st.markdown("A long text opens from this link while this server keeps it.")
    show_link(link(view), key="view")


def link(view: View) -> str:
    """Return the address that opens on this view; others can open it where they reach this app."""
    return f"{own_address.reached().url}?{urlencode(selection.link_params(view))}"


def safe_name(text: str, otherwise: str) -> str:
    """Return a text as part of a file's name, safe on every system."""
    return re.sub(r"[^\w.-]+", "_", text)[-60:].strip("._") or otherwise


def caption(record: AttentionRecord, view: HeadsView) -> str:
    """Return model, part, text and settings, in one line."""
    settings = [f"{view.scale} colours"] if view.show == "heatmap" else []
    settings += ["sub-words merged"] if record.merged else []
    if record.removed_mass is not None:
        share = float(record.removed_mass[view.chosen])
        settings.append(f"tokens left out ({share:.1%} of the mass)")
    if view.window:
        rows, columns = view.shown(*record.shape[2:])
        settings.append(f"queries {rows[0]}–{rows[-1]}, keys {columns[0]}–{columns[-1]}")
    return words.source(record, ", ".join(settings))


def csv(record: AttentionRecord, view: HeadsView) -> bytes:
    """Return the head's weights that are shown as CSV, a row per query, under comment lines."""
    shown, weights, is_visible = token_window.shown_head(record, view.chosen, view)
    rows, columns = shown.names
    table = pd.DataFrame(where_visible(weights, is_visible, np.nan), index=rows, columns=columns)
    title = f"{words.head_name(*view.chosen)} of {caption(record, view)}"
    notes = [title, "attention weights; rows are queries, columns are keys"]
    notes += [] if is_visible.all() else [f"an empty cell is {MASKED}"]
    return commented_csv(table, notes)


def head_file(
    make: Callable[..., T], view: HeadsView, **form: str
) -> Callable[[AttentionRecord], T]:
    """Return what makes the chosen head's file, with its name and settings on the page."""

    def file_of(record: AttentionRecord) -> T:
        shown, weights, is_visible = token_window.shown_head(record, view.chosen, view)
        labels_of_file = {
            "title": words.head_name(*view.chosen),
            "caption": caption(record, view),
            **form,
        }
        return make(weights, shown.labels, scale=view.scale, visible=is_visible, **labels_of_file)

    return file_of


def _record_file(record: AttentionRecord) -> bytes:
    return b"".join(record_file.parts(record))  # in memory: the disk may be full
