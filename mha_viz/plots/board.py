"""Heads of any models and texts beside each other: one HTML page, or Markdown with pictures."""

import base64
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mha_viz.plots.table_text import markdown
from mha_viz.web.labels import html_text
from mha_viz.web.standalone import NO_SCRIPT, document
from mha_viz.web.theme import format_number

STYLE = Path(__file__).with_name("board.css").read_text("utf-8")
_TITLE, _OPEN = "Pinned attention heads", "Open this board in the app"


class HeadCard(NamedTuple):
    """A head on a board: what is said of it by keys, its metrics by titles, its weights as PNG."""

    title: str
    lines: Mapping[str, str]
    numbers: Mapping[str, float]
    picture: bytes = b""


def board_html(heads: Sequence[HeadCard], link: str = "") -> str:
    """Return one HTML document that needs no network; `link` is the board's address in the app."""
    parts = [f"<h1>{_TITLE}</h1>\n<main>"]
    for i, head in enumerate(heads, 1):
        data, title = base64.b64encode(head.picture).decode(), html_text(head.title)
        picture = f'<img src="data:image/png;base64,{data}" alt="Attention weights of {title}">'
        parts.append(f"<article><h2>{i}. {title}</h2>\n{picture}")
        parts += [f"<p><b>{key}:</b> {html_text(text)}</p>" for key, text in head.lines.items()]
        parts.append("</article>")
    parts.append(f"</main>\n<section>{_metrics(heads).to_html(border=0)}</section>")  # escaped
    parts += [f'<p><a href="{html_text(link)}">{_OPEN}</a></p>'] if link else []
    return document(_TITLE, STYLE, "\n".join(parts), policy=NO_SCRIPT)


def board_zip(heads: Sequence[HeadCard], link: str = "") -> bytes:
    """Return a ZIP file: `board.md` and its pictures, `01.png` and so on; else as `board_html`."""
    parts, file = [f"# {_TITLE}"], io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for i, head in enumerate(heads, 1):
            title = markdown(head.title)
            parts += [f"## {i}. {title}", f"![Attention weights of {title}]({i:02}.png)"]
            parts.append("\n".join(f"- **{k}:** {markdown(v)}" for k, v in head.lines.items()))
            archive.writestr(f"{i:02}.png", head.picture)
        table = _metrics(heads).reset_index(names="Metric").map(markdown).rename(columns=markdown)
        rows = [[*table], ["---:"] * (len(heads) + 1), *table.to_numpy()]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        parts += [f"[{_OPEN}](<{link}>)"] if link else []
        archive.writestr("board.md", "\n\n".join(parts) + "\n")
    return file.getvalue()


def _metrics(heads: Sequence[HeadCard]) -> pd.DataFrame:
    columns = {f"{i}. {head.title}": head.numbers for i, head in enumerate(heads, 1)}
    return pd.DataFrame(columns).map(format_number)
