"""The results that the notebooks of docs/notebooks are stored with.

`python -m docs.store_notebooks` runs all of them and stores what their cells give; with `--check`
it only says where that differs from what is stored. Results are text, small tables and pictures:
figures and records are stored without their pages, so that the files are small and run no script.
"""

import base64
import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from docs import notebook_pages, picture_compare

LABS = sorted((notebook_pages.ROOT / "docs" / "notebooks" / "labs").glob("*.ipynb"))
NOTEBOOKS = [*notebook_pages.NOTEBOOKS, *LABS]
COLOURS = 256  # of a stored picture: no cell changes visibly
MOST_HTML = 10_000  # characters: tables are small, pages with scripts are not

Notebook = dict[str, Any]


def with_results(path: Path) -> Notebook:
    """A notebook with the results of its cells; those from its exercise on are not run."""
    notebook = json.loads(path.read_text("utf-8"))
    cells = notebook["cells"]
    until = [number for number, cell in enumerate(cells) if "exercise" in tags(cell)]
    count = itertools.count(1)
    for number, cell in enumerate(cells):
        cell["id"] = f"{path.stem}-{number}"
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    with notebook_pages.empty_folder():
        ran = itertools.islice(notebook_pages.run(path), *until[:1] or [None])
        for cell, (kind, source, results) in zip(cells, ran, strict=False):
            if kind == "code" and source != notebook_pages.INSTALL:
                number = next(count)
                outputs = [_output(result, number) for result in results]
                cell |= {"execution_count": number, "outputs": outputs}
    return notebook


def tags(cell: Notebook) -> list[str]:
    """Return the purposes of a cell."""
    return list(cell["metadata"].get("tags", ()))


def differences(path: Path) -> list[str]:
    """List in words where a notebook's stored results are not those of its code."""
    stored, made = json.loads(path.read_text("utf-8")), with_results(path)
    found = picture_compare.changed_lines(text_of(stored), text_of(made))
    for kept, taken in itertools.zip_longest(_pictures(stored), _pictures(made)):
        if kept is None or taken is None or kept.size != taken.size:
            found.append("a picture is missing, or has another size")
        elif picture_compare.changed_share(taken, kept) > picture_compare.MANY:
            found.append("a picture is drawn otherwise")
    return found


def text_of(notebook: Notebook) -> str:
    """All of a notebook but its pictures, as lines."""
    lines = []
    for cell in notebook["cells"]:
        lines += [cell["id"], "".join(cell["source"])]
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            lines += ["".join(data[kind]) for kind in sorted(data) if kind != "image/png"]
    return "\n".join(lines)


def _pictures(notebook: Notebook) -> Iterator[Image.Image]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                yield Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"])))


def _small(png: str) -> str:
    """A picture, PNG in base64, of few colours: half of the bytes."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(COLOURS).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def _output(result: Any, number: int) -> Notebook:
    """A result as nbformat 4.5 stores it."""
    if isinstance(result, str):
        return {"name": "stdout", "output_type": "stream", "text": result.splitlines(keepends=True)}
    data = {"text/plain": repr(result).splitlines(keepends=True)}
    if hasattr(result, "_repr_mimebundle_"):
        data["image/png"] = _small(result._repr_mimebundle_()["image/png"])
    elif hasattr(result, "_repr_html_"):
        page = result._repr_html_()
        if len(page) > MOST_HTML:
            raise ValueError(f"The page of {result!r:.60} is too large: {len(page)} characters.")
        data["text/html"] = page.splitlines(keepends=True)
    return {
        "data": data,
        "execution_count": number,
        "metadata": {},
        "output_type": "execute_result",
    }


def main(check: bool) -> int:
    """Store all results anew, or with `check` say what differs; returns the status to exit with."""
    status = 0
    for path in NOTEBOOKS:
        if check:
            found = differences(path)
            status |= bool(found)
            print(path.name, *found, sep="\n  ")
        else:
            text = json.dumps(with_results(path), indent=1, ensure_ascii=False)
            path.write_text(text + "\n", "utf-8")
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return status


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
