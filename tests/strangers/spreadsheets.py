"""CSV as a spreadsheet reads it, wherever it parts cells, and whether or not it knows quotes."""

import csv
import io
import re

_FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?(,|$)")


def cells(data: str) -> list[list[str]]:
    """Its rows, as Python reads them."""
    return list(csv.reader(io.StringIO(data, newline="")))


def undone(text: str) -> str:
    """A cell without our apostrophes, as docs/figures.md tells readers to undo them."""
    return re.sub(r"""(?:^|(?<=[,;\t\r\n]))'(?=["']*[=+\-@＝＋－＠\t\r\n])""", "", text)


def formulas(data: str) -> list[str]:
    """The cells that some spreadsheet would run."""
    found = []
    for delimiter in ",;\t":
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            lines = io.StringIO(data, newline="")
            for row in csv.reader(lines, delimiter=delimiter, quoting=quoting):
                found += [cell for cell in row if _FORMULA.match(cell) and not _NUMBER.match(cell)]
    return found
