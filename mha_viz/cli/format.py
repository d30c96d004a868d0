"""Output of the commands: a record and its heads as tables, CSV, JSON and pictures.

Prints nothing itself.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import tomllib
from dataclasses import asdict
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mha_viz.core.layer_numbers import head_name, is_counted
from mha_viz.core.reprs import count

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.core.record.attention_record import AttentionRecord

N_PAIRS = 20  # rows of the table of a head
_WIDEST = 10_000  # letters, more than any table has in a line
_LONGEST_WORD = 40  # letters of a word that a table does not break


# What `show` can write, what commands can whose result is a table, what `report` can, and what
# `trace` and `models` can.
Format = StrEnum("Format", ["table", "csv", "json", "html", "png", "svg", "pdf"])
TableFormat = StrEnum("TableFormat", ["table", "csv", "json", "markdown", "latex"])
ReportFormat = StrEnum("ReportFormat", ["table", "csv", "json", "parquet"])
ListFormat = StrEnum("ListFormat", ["table", "json"])
PICTURES = (Format.html, Format.png, Format.svg, Format.pdf)


def strongest_heads(record: AttentionRecord) -> list[dict[str, Any]]:
    """Return, for every metric that is a probability, the head that has most of it."""
    from mha_viz.core.measure import measure
    from mha_viz.core.metrics import METRICS

    facts = []
    for key, values in measure(record).items():
        # A next token that no head may see has no strongest head.
        if METRICS[key].unit == "probability" and bool(values.any()):
            at, head = divmod(int(values.argmax()), record.n_heads)
            title, value = METRICS[key].title, float(values[at, head])
            layer = record.layer_numbers[at]
            facts.append(dict(metric=key, title=title, layer=layer, head=head, value=value))
    return facts


def headline(record: AttentionRecord) -> str:
    """Return what ran, and how large it is."""
    layers, heads, queries, keys = record.shape
    return (
        f"{record.model} ({record.family}), {record.part} attention: {count(layers, 'layer')} x "
        f"{count(heads, 'head')}, {count(queries, 'query', 'queries')} x {count(keys, 'key')}"
    )


def record_header(record: AttentionRecord) -> dict[str, Any]:
    """Return all about a record but its numbers, for programs."""
    names = ("model", "family", "part", "text", "text_pair", "causal", "merged", "notes")
    numbers = record.layer_numbers
    axes = ("tokens", "key_tokens")
    return {
        **{name: getattr(record, name) for name in names},
        **({} if is_counted(numbers) else {"layer_numbers": numbers}),
        "shape": dict(zip(("layers", "heads", "queries", "keys"), record.shape, strict=True)),
        **{axis: [asdict(token) for token in getattr(record, axis)] for axis in axes},
    }


def picture(record: AttentionRecord, chosen: tuple[int, int] | None, kind: Format) -> str | bytes:
    """Return all heads, or a chosen one, as one of `PICTURES`."""
    from mha_viz.core.record.visible import visible_keys, visible_tiles
    from mha_viz.notebook import caption, record_payload
    from mha_viz.plots.heatmap import head_html
    from mha_viz.plots.static import TILE, grid_image, head_image
    from mha_viz.web.standalone import grid_html

    line = caption(record, chosen)
    if chosen is None:
        title = record.model
        if kind is Format.html:
            return grid_html(record_payload(record), title=title, caption=line)
        tiles, visible = record.tiles(TILE).numpy(), visible_tiles(record, TILE)
        options: dict[str, Any] = {"visible": visible, "layer_numbers": record.layer_numbers}
        return grid_image(tiles, file_format=kind.value, title=title, caption=line, **options)
    title, weights = head_name(*chosen, numbers=record.layer_numbers), record.head(*chosen).numpy()
    head = (weights, (record.labels, record.key_labels))
    visible = visible_keys(record, chosen[0])
    if kind is Format.html:
        return head_html(*head, title=title, caption=line, visible=visible)
    return head_image(*head, file_format=kind.value, title=title, caption=line, visible=visible)


def pair_table(record: AttentionRecord, layer: int, head: int) -> str:
    """Return the strongest pairs, heaviest first."""
    pairs = _pairs(record, layer, head)
    top = pairs.nlargest(N_PAIRS, "weight").itertuples(index=False)
    rows = [[*map(str, pair), f"{weight:.4f}"] for *pair, weight in top]
    name = head_name(layer, head, numbers=record.layer_numbers)
    title = f"{record.model} {name}: the {len(rows)} largest of {len(pairs):,} attention weights\n"
    return title + grid(["#", "query", "#", "key", "weight"], rows, 4)


def grid(names: list[str], rows: list[list[str]], first_number: int, *, tight: bool = False) -> str:
    """Return a table as text; columns from `first_number` on are numbers, set to the right.

    With `tight`, columns stand close, and the last one is text again.
    """
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text as Plain

    close: dict[str, Any] = {"padding": (0, 0), "collapse_padding": True, "pad_edge": False}
    table = Table(box=box.SIMPLE_HEAD, **(close if tight else {}))
    for i, name in enumerate(names):
        text = i < first_number or (tight and i == len(names) - 1)
        right = name == "#" or not text
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Plain, row))  # plain, because "[SEP]" would be read as markup
    # A pipe or a file has no width of its own: as wide as COLUMNS says, else as it takes.
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    console = Console(file=io.StringIO(), width=None if has_width else 200)
    room, words = console.width, _widths(names, rows, 0)
    for column, width in zip(table.columns, words, strict=True):
        column.width = width
    console.width = _WIDEST
    frame = Measurement.get(console, console.options, table).minimum - sum(words)
    for column, width in zip(table.columns, _widths(names, rows, room - frame), strict=True):
        column.width = width
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def _widths(names: list[str], rows: list[list[str]], room: int) -> list[int]:
    """Return the columns' widths: as they need or, in less room, none narrower than its words.

    The narrowest are widened first. Where the words need more than `room`, so does the table.
    """
    from rich.cells import cell_len

    columns = list(zip(names, *rows, strict=True))
    most = [max(cell_len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
    words = [max(map(cell_len, (" ".join(cells)).split()), default=1) for cells in columns]
    widths = [min(word, _LONGEST_WORD) for word in words]
    for _ in range(room - sum(widths)):
        short = [i for i, width in enumerate(widths) if width < most[i]]
        if not short:
            break
        widths[min(short, key=widths.__getitem__)] += 1
    return widths


def head_csv(record: AttentionRecord, layer: int, head: int) -> str:
    """Return all weights of a head."""
    return _csv(_pairs(record, layer, head))


def _pairs(record: AttentionRecord, layer: int, head: int) -> DataFrame:
    """Return a row for each pair, since labels repeat and positions do not."""
    import numpy as np
    import pandas as pd

    weights = record.head(layer, head).numpy()
    queries, keys = np.indices(weights.shape).reshape(2, -1)
    labels, key_labels = record.labels, record.key_labels  # made anew each time
    pairs = {
        "query_position": queries,
        "query": [labels[q] for q in queries],
        "key_position": keys,
        "key": [key_labels[k] for k in keys],
        "weight": weights.ravel(),
    }
    return pd.DataFrame(pairs)


def _csv(table: DataFrame) -> str:
    from mha_viz.plots.table_text import csv_text

    return csv_text(table.reset_index(drop=True))  # the number of a row means nothing here


def head_json(record: AttentionRecord, layer: int, head: int) -> str:
    """Return a head's weights with the header of the record, for programs."""
    removed = record.removed_mass
    shown = {
        **record_header(record),
        "layer": record.layer_numbers[layer],
        "head": head,
        "weights": record.head(layer, head).tolist(),
        "removed_mass": None if removed is None else float(removed[layer, head]),
    }
    return json.dumps(shown, indent=2) + "\n"


_TEXTS = tomllib.loads((files(__package__) / "report.toml").read_text("utf-8"))
REPORT_COLUMNS: dict[str, str] = _TEXTS["columns"]  # the other formats hold everything


def report(record: AttentionRecord, table: DataFrame, kind: ReportFormat) -> str | bytes:
    """Return the report of all heads: a table to read, or all of its columns for programs."""
    if kind is ReportFormat.table:
        return f"{headline(record)}\n\n{_report_table(table)}"
    if kind is ReportFormat.csv:
        return _csv(table)
    if kind is ReportFormat.json:
        rows = [
            {str(key): value if _is_defined(value) else None for key, value in row.items()}
            for row in table.to_dict("records")
        ]
        return json.dumps({"notes": table.attrs["notes"], "heads": rows}, indent=2) + "\n"
    from mha_viz.extras import require

    require("study", "A Parquet file", "CSV and JSON do without.")
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()


def _report_table(table: DataFrame) -> str:
    """Return a line per head: its main scores, the nearest head and its labels; baselines below."""
    import pandas as pd

    shown = {key: name for key, name in REPORT_COLUMNS.items() if key in table}
    rows = [
        [
            f"L{row['layer']} H{row['head']}",
            *(_score_text(row[key]) for key in shown),
            "–" if pd.isna(row["twin"]) else row["twin"],
            row["labels"],
        ]
        for row in table.to_dict("records")
    ]
    for name, title in _TEXTS["baselines"].items():
        columns = {key: f"{key}_{name}" for key in shown if f"{key}_{name}" in table}
        means = {key: table[column].mean() for key, column in columns.items()}
        if means:
            numbers = [_score_text(means[key]) if key in means else "" for key in shown]
            rows.append(["", *numbers, "", f"({title})"])
    drawn = grid(["\nhead", *shown.values(), "nearest\nhead", "\nlabels"], rows, 1, tight=True)
    return f"{drawn}\n{_TEXTS['below']}"


def _score_text(value: float) -> str:
    return f"{value:.3f}" if _is_defined(value) else "–"


def figure_file(figure: Any, kind: Format, title: str) -> str | bytes:
    """Return a Plotly figure as a page, or as a picture as wide as two columns of a paper."""
    from mha_viz.plots.column_image import column_image
    from mha_viz.plots.figure_file import figure_html

    if kind is Format.html:
        return figure_html(figure, caption=title)
    return column_image(figure, file_format=str(kind), column="double", title=title)


def _is_defined(value: object) -> bool:
    """Return whether it is neither missing nor NaN, nor beyond what float32 holds."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def table(frame: DataFrame, kind: TableFormat, title: str, **more: object) -> str:
    """Return a table to read under its title and single numbers; or as another format has it.

    JSON has all of it; CSV, Markdown and LaTeX have the table alone.
    """
    if kind is TableFormat.csv:
        return _csv(frame)
    if kind in (TableFormat.markdown, TableFormat.latex):
        from mha_viz.plots.table_text import table_latex, table_markdown

        write = table_latex if kind is TableFormat.latex else table_markdown
        return write(frame.reset_index(drop=True), title)
    if kind is TableFormat.json:
        rows = json.loads(frame.to_json(orient="records", double_precision=12))
        return json.dumps({"title": title, **more, "rows": rows}, indent=2) + "\n"
    numbers = "".join(f"{key:<32} {_value_text(value)}\n" for key, value in more.items())
    names = [str(name) for name in frame]
    text = [name for name in names if frame[name].dtype.kind not in "fiu"]
    frame = frame[[*text, *(name for name in names if name not in text)]]
    rows = [[_value_text(value) for value in row] for row in frame.itertuples(index=False)]
    return f"{title}\n{numbers}\n" + grid([str(n) for n in frame], rows, len(text))


def _value_text(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if math.isfinite(value) else "not defined"  # programs read it, too
