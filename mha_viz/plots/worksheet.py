"""A printable sheet of tasks about heads, or its answers: one HTML document, without a network."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

from mha_viz.web import theme
from mha_viz.web.browser import style
from mha_viz.web.labels import clean
from mha_viz.web.standalone import NO_SCRIPT, document

_COLOURS = (
    f":root {{ --ink: {theme.ink()}; --paper: {theme.paper()}; --muted: {theme.muted()}; "
    f"--line: {theme.gridline()}; --font: {theme.FONT}; }}"
)


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
    return document(
        clean(title, 200), f"{_COLOURS}\n{style('worksheet')}", "\n".join(parts), policy=NO_SCRIPT
    )


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
    code = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{code}" alt="{_text(alt)}">'
