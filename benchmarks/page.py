"""The two tables of docs/benchmarks.md: what is met, and what is missed and why."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Result
from mha_viz.core.output_file import write_file

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
REASONS = Path(__file__).with_name("reasons.toml")  # by bench and measure, why an aim is missed
MET, MISSED = "## What is met", "## What is missed, and why"
COLUMNS = ("bench", "measure", "value", "beside", "ratio", "aim", "measured")
_UNITS = {"ms": 1e-3, "s": 1.0, "kB": 1e3, "MB": 1e6, "MiB": 2**20, "GB": 1e9}
_AMOUNT = re.compile(rf"([\d,.]*\d) ({'|'.join(_UNITS)})\b")


class Row(NamedTuple):
    """A result with an aim, the bench that measured it, and how it was measured."""

    bench: str
    result: Result
    measured: str  # date and machine, in a line


def update_page(bench: str, results: Sequence[Result], measured: str, page: Path = PAGE) -> None:
    """Replace the rows of a bench by its results that have an aim; the page's other rows stay."""
    head = page.read_text(encoding="utf-8").split(MET)[0]
    rows = [row for row in read_rows(page) if row.bench != bench]
    rows += [Row(bench, result, measured) for result in results if result.met is not None]
    write_file(page, "\n".join([head + MET, "", *_tables(rows), ""]).encode())


def read_rows(page: Path = PAGE) -> Iterator[Row]:
    """Yield the rows of both tables."""
    met_part, _, missed_part = page.read_text(encoding="utf-8").partition(MISSED)
    for part, met in ((met_part, True), (missed_part, False)):
        for line in part.splitlines():
            bench, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if line.startswith("| ") and bench not in ("---", COLUMNS[0]):
                measure, value, beside, ratio, aim, measured = cells[: len(COLUMNS) - 1]
                yield Row(bench, Result(measure, value, beside, ratio, aim, met), measured)


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of both tables, sorted by bench."""
    ordered = sorted(rows, key=lambda row: row.bench)
    yield from _table(COLUMNS, [_cells(row) for row in ordered if row.result.met])
    yield from ("", MISSED, "")
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    missed = [(*_cells(row), reason_of(row, reasons)) for row in ordered if row.result.met is False]
    yield from _table((*COLUMNS, "why"), missed)


def reason_of(row: Row, reasons: dict[str, dict[str, str]]) -> str:
    """Return why an aim is missed: of the first entry whose key begins the row's measure."""
    of_bench = reasons.get(row.bench, {})
    matches = (why for measure, why in of_bench.items() if row.result.measure.startswith(measure))
    return next(matches, "not yet known")


def _cells(row: Row) -> tuple[str, ...]:
    result = row.result
    ratio = result.ratio or share_of_aim(result)
    return row.bench, result.measure, result.ours, result.beside, ratio, result.aim, row.measured


def share_of_aim(result: Result) -> str:
    """Return a result as a share of its aim: the last amounts of both, else their first numbers.

    >>> share_of_aim(Result("click", "13 ms, 95 % within 18 ms", aim="95 % within 0.05 s"))
    '0.36 of the aim'
    """
    ours, aim = (_amount(text) for text in (result.ours, result.aim))
    if ours is None or aim is None:
        return ""
    return f"{ours / aim:.2g} of the aim" if aim else f"{ours:g}, as aimed at"


def _amount(text: str) -> float | None:
    """Return the last amount with a unit in seconds or bytes, else the first number."""
    with_units = _AMOUNT.findall(text)
    if with_units:
        number, unit = with_units[-1]
        return float(number.replace(",", "")) * _UNITS[unit]
    numbers = re.findall(r"[\d,.]*\d", text)
    return float(numbers[0].replace(",", "")) if numbers else None


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ("---",) * len(head), *rows):
        yield "| " + " | ".join(cells) + " |"
