"""Files and links to take away: PNG, SVG, CSV, HTML, the record, and the address of this view."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pandas as pd
import streamlit as st
from streamlit import runtime

from mha_viz.core.record import AttentionRecord
from mha_viz.plots.csv_file import commented_csv, table_csv
from mha_viz.plots.heatmap import head_html
from mha_viz.plots.static import head_image
from mha_viz.ui.session import scene as scenes
from mha_viz.ui.session import state, views
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.views import View
from mha_viz.ui.widgets import folded
from mha_viz.web.labels import head_name
from mha_viz.web.payload import MAX_SIDE
from mha_viz.web.standalone import grid_html

BINARY = "application/octet-stream"
MAX_EXACT = 16 * 2**20  # bytes of weights that Streamlit holds for a page, as a file
Urls = dict[tuple[bool, ...], str]
GridBytes = Callable[[Scene, AttentionRecord, View], bytes]


def exact_url(record: AttentionRecord, view: View, urls: Urls) -> str | None:
    """Where the browser finds the exact float32 weights, once somebody points at one.

    The grid itself is one byte a weight; the exact numbers follow only on demand. Streamlit
    forgets a file when the page runs again, so `urls` holds the addresses of one run.
    """
    small = record.pattern.nbytes <= MAX_EXACT and max(record.pattern.shape[2:]) <= MAX_SIDE
    if not runtime.exists() or not small:
        return None
    options = (view.words, view.no_special, view.no_first)
    if options not in urls:
        manager = runtime.get_instance().media_file_mgr
        weights = record.pattern.numpy().tobytes()
        urls[options] = manager.add(weights, BINARY, f"mha_viz.exact_weights.{options}")
    return urls[options]


def menu(scene: Scene, grid: GridBytes) -> None:
    """Downloads and the link, made only when they are asked for."""
    folded.popover("Export", ":material/download:", "export", lambda: _files(scene, grid))
    folded.popover("Link", ":material/link:", "link", _link)


def _files(scene: Scene, grid: GridBytes) -> None:
    view, name = state.current(), file_name(scene)

    def of(make: Callable[[AttentionRecord], str | bytes]) -> Callable[[], str | bytes]:
        # Streamlit keeps what makes a file: not the record, which is asked for with the file.
        return lambda: make(scenes.displayed_record(scene, view))

    files: tuple[tuple[str, str, str, Callable[[AttentionRecord], str | bytes]], ...] = (
        ("Head as PNG", "png", "image/png", lambda record: _image(record, view, "png")),
        ("Head as SVG", "svg", "image/svg+xml", lambda record: _image(record, view, "svg")),
        ("Head as CSV", "csv", "text/csv", lambda record: csv(record, view)),
        ("Head as HTML", "html", "text/html", lambda record: _html(record, view)),
        ("All heads as HTML", "all.html", "text/html",
         lambda record: _all_html(record, view, grid(scene, record, view))),
        ("Record file", "safetensors", BINARY, _record_file),
    )  # fmt: skip
    columns = st.columns(2, gap="small")  # low enough to open within a laptop's window
    for i, (label, suffix, mime, make) in enumerate(files):
        columns[i % 2].download_button(
            label,
            of(make),
            f"{name}.{suffix}",
            mime,
            key=f"get_{suffix}",
            on_click="ignore",
            width="stretch",
        )


def table_file(table: pd.DataFrame, *, key: str, name: str, caption: str) -> None:
    """The numbers of a table that stands without a figure, with where they come from."""
    st.download_button(
        "Export as CSV",
        lambda: table_csv(table, f"{name}\n{caption}"),
        f"{safe_name(name, 'table')}.csv",
        "text/csv",
        key=f"{key}-CSV",
        on_click="ignore",
        icon=":material/download:",
    )


def _link() -> None:
    view = state.current()
    if max(len(view.text), len(view.pair)) > views.MAX_URL_TEXT:
        st.markdown("This text is too long for a link; the link opens on everything else.")
    st.code(link(view), language=None, wrap_lines=True)


def link(view: View) -> str:
    """The address that opens on this view."""
    parts = urlsplit(st.context.url or "http://127.0.0.1:8501/")
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(views.to_params(view))}"


def file_name(scene: Scene) -> str:
    """A name for files of the chosen head, safe on every system."""
    view = state.current()
    return f"{safe_name(scene.record.model, 'model')}_L{view.layer}_H{view.head}"


def safe_name(text: str, otherwise: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^\w.-]+", "_", text)[-60:].strip("._") or otherwise


def caption(record: AttentionRecord, view: View) -> str:
    """Model, part, text and settings, in one line."""
    text = record.text if len(record.text) <= 200 else record.text[:199] + "…"
    pair = f" | {record.text_pair[:200]}" if record.text_pair else ""
    settings = [f"{view.scale} colours"]
    settings += ["sub-words merged"] if record.merged else []
    if record.removed_mass is not None:
        settings.append(
            f"tokens left out ({float(record.removed_mass[view.layer, view.head]):.1%} of the mass)"
        )
    part = "" if record.part == "self" else f" {record.part}"
    return f"{record.model}{part} · {text}{pair} · {', '.join(settings)}"


def csv(record: AttentionRecord, view: View) -> bytes:
    """All weights of the head, a row per query, under comment lines that say what they are."""
    table = pd.DataFrame(
        record.head(view.layer, view.head).numpy(),
        index=[f"{i}:{label}" for i, label in enumerate(record.labels)],
        columns=[f"{i}:{label}" for i, label in enumerate(record.key_labels)],
    )
    notes = [
        f"{head_name(view.layer, view.head)} of {caption(record, view)}",
        "attention weights; rows are queries, columns are keys",
    ]
    return commented_csv(table, notes)


def _image(record: AttentionRecord, view: View, form: str) -> bytes:
    return head_image(
        record.head(view.layer, view.head).numpy(),
        record.labels,
        record.key_labels,
        file_format=form,
        title=head_name(view.layer, view.head),
        caption=caption(record, view),
        scale=view.scale,
    )


def _html(record: AttentionRecord, view: View) -> str:
    return head_html(
        record.head(view.layer, view.head).numpy(),
        record.labels,
        record.key_labels,
        title=head_name(view.layer, view.head),
        caption=caption(record, view),
        scale=view.scale,
    )


def _all_html(record: AttentionRecord, view: View, grid: bytes) -> str:
    return grid_html(
        grid,
        selected=(view.layer, view.head),
        scale=view.scale,
        title=f"All heads of {record.model}",
        caption=caption(record, view),
    )


def _record_file(record: AttentionRecord) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return record.save(Path(folder) / "record.safetensors").read_bytes()
