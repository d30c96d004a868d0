"""HTML pages without a network: heads beside each other, and a sheet of tasks."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mha_viz.web import theme
from mha_viz.web.browser import style
from mha_viz.web.labels import clean, html_text, png_address
from mha_viz.web.standalone import NO_SCRIPT, document
from mha_viz.web.theme import format_number

_COLOURS = (
    f":root {{ --ink: {theme.ink()}; --paper: {theme.paper()}; --muted: {theme.muted()}; "
    f"--line: {theme.gridline()}; --font: {theme.FONT}; }}"
)
STYLE = Path(__file__).with_name("board.css").read_text("utf-8")
_TITLE, _OPEN = "Pinned attention heads", "Open this board in the app"


@dataclass(frozen=True)
class SheetTask:
    """One task, in plain text: its answer is lines for the answer sheet, its picture a PNG."""

    title: str
    ask: str
    rule: str = ""
    answer: tuple[str, ...] = ()
    picture: bytes | None = None


def worksheet(
    title: str,
    about: Sequence[str],
    tasks: Sequence[SheetTask],
    *,
    tokens: Sequence[str] = (),
    grid: bytes | None = None,
    answers: bool = False,
) -> str:
    """Return a sheet as an HTML document that prints on A4.

    `about` are paragraphs below the title, `tokens` are listed with their places beside `grid`, the
    picture of all heads as PNG. With `answers` it is the teacher's sheet: answers in place of room
    for them.
    """
    parts = [f"<h1>{html.escape(clean(title, 200))}</h1>"]
    if not answers:
        parts.append(f'<div class="line">{_blank("Name")}{_blank("Date")}</div>')
    parts += [f"<p>{_text(line)}</p>" for line in about]
    if grid is not None:
        parts.append(f"<figure>{_picture(grid, 'All heads: a row per layer')}</figure>")
    if tokens:
        listed = " ".join(f"<b>{i}</b>&nbsp;{_text(token)}" for i, token in enumerate(tokens))
        parts.append(f'<p class="tokens">{listed}</p>')
    parts += [_task(number, task, answers) for number, task in enumerate(tasks, 1)]
    css = f"{_COLOURS}\n{style('worksheet')}"
    return document(clean(title, 200), css, "\n".join(parts), policy=NO_SCRIPT)


def _task(number: int, task: SheetTask, answers: bool) -> str:
    lines = [f"<h2>{number}. {_text(task.title)}</h2>", f"<p>{_text(task.ask)}</p>"]
    lines += [f"<p><small>{_text(task.rule)}</small></p>"] if task.rule else []
    if answers:
        lines += [f"<p>{_text(line)}</p>" for line in task.answer]
        if task.picture is not None:
            lines.append(f"<figure>{_picture(task.picture, task.title)}</figure>")
    else:
        lines.append(f'<div class="line">{_blank("Answer")}{_blank("Because")}</div>')
    return "<section>" + "\n".join(lines) + "</section>"


def _text(text: str) -> str:
    return html.escape(clean(text, 2_000))


def _blank(name: str) -> str:
    return f"{name} <span></span>"


def _picture(png: bytes, alt: str) -> str:
    return f'<img src="{png_address(png)}" alt="{_text(alt)}">'


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
        picture = _picture(head.picture, f"Attention weights of {head.title}")
        parts.append(f"<article><h2>{i}. {html_text(head.title)}</h2>\n{picture}")
        parts += [f"<p><b>{key}:</b> {html_text(text)}</p>" for key, text in head.lines.items()]
        parts.append("</article>")
    numbers = {f"{i}. {head.title}": head.numbers for i, head in enumerate(heads, 1)}
    table = pd.DataFrame(numbers).map(format_number).to_html(border=0)  # escaped
    parts.append(f"</main>\n<section>{table}</section>")
    parts += [f'<p><a href="{html_text(link)}">{_OPEN}</a></p>'] if link else []
    return document(_TITLE, STYLE, "\n".join(parts), policy=NO_SCRIPT)
