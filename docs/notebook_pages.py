"""The notebooks of docs/notebooks, run from top to bottom, as pages of the site.

The site shows what the code of today gives, alive; the files hold text and pictures of it
(docs/store_notebooks.py).
"""

import ast
import contextlib
import html
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from hatch_build import origin, public_address

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
INSTALL = '%pip install --quiet "mha-viz[notebook]"'  # the first code of each, for Colab
PLOTLY = "notebooks/plotly.min.js"  # once for all figures of the site


def assets() -> dict[str, str]:
    """File of the site -> what is in it."""
    return {PLOTLY: get_plotlyjs()}


def render(path: Path) -> str:
    """The Markdown of a notebook and of what its cells give."""
    parts = []
    with empty_folder():
        for kind, source, results in run(path):
            if kind == "markdown":
                parts.append(source)
            else:
                parts.append(f"```python\n{source}\n```")
                parts += [_shown(result) for result in results]
    title, _, below = parts[0].partition("\n\n")  # the first cell begins with it
    badges = launchers(path, public_address(origin(ROOT)))
    return "\n\n".join(filter(None, [title, badges, below, *parts[1:]])) + "\n"


def launchers(path: Path, repository: str) -> str:
    """Badges that open a notebook on a machine of others, where one can fetch it; else nothing.

    Args:
        path: the notebook.
        repository: the web address of the clone's origin, or "". Both fetch from GitHub.
    """
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)", repository)
    if not found:
        return ""
    place = path.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{found[1]}/HEAD?labpath={quote(place, safe='')}"
    colab = f"https://colab.research.google.com/github/{found[1]}/blob/HEAD/{place}"
    return (
        f"[![Open in Binder](../images/badge-binder.svg)]({binder}) "
        f"[![Open in Colab](../images/badge-colab.svg)]({colab})\n\n"
        "Binder has all that the notebook needs. Colab gets it by the first cell; before the "
        f'release that line is `%pip install "mha-viz[notebook] @ git+{repository}"`.'
    )


def run(path: Path) -> Iterator[tuple[str, str, list[Any]]]:
    """Run the cells in one scope, in order.

    Args:
        path: a notebook of Python cells without magics, but for the one that installs, which is
            shown and not run.

    Returns:
        for each cell its kind ("markdown" or "code"), its source, and what it gives: the text that
        it prints, if any, and the value of its last line, if that is an expression.

    Raises:
        whatever a cell raises.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        runs = cell["cell_type"] == "code" and source != INSTALL
        results = _run_cell(source, f"{path.name}, cell {number}", scope) if runs else []
        yield cell["cell_type"], source, results


def _run_cell(source: str, name: str, scope: dict[str, Any]) -> list[Any]:
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    expression = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    if expression is not None:
        tree.body.pop()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), scope)
        value = None if expression is None else eval(compile(expression, name, "eval"), scope)
    return [result for result in (printed.getvalue() or None, value) if result is not None]


def _shown(result: Any) -> str:
    """A result as a notebook shows it: as HTML where it has that, else as text."""
    if isinstance(result, Figure):
        page = result.to_html(full_html=False, include_plotlyjs=Path(PLOTLY).name)
        return f'<div class="result">{_one_line(page)}</div>'
    page = result._repr_html_() if hasattr(result, "_repr_html_") else None
    if page is not None:
        return f'<div class="result">{_one_line(page)}</div>'
    text = result if isinstance(result, str) else repr(result)
    return f'<pre class="result">{html.escape(text.rstrip()).replace(chr(10), "&#10;")}</pre>'


def _one_line(page: str) -> str:
    """HTML that Markdown leaves alone: an empty line would end the block."""
    return "\n".join(line for line in page.splitlines() if line.strip())


@contextlib.contextmanager
def empty_folder() -> Iterator[None]:
    """Work in a folder that is thrown away with all that a cell writes."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
