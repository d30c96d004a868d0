"""The notebooks of the documentation run, and what they say about their results is so."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

from docs import notebook_pages, store_notebooks
from mha_viz import AttentionRecord
from mha_viz.learn.frame.contents import LABS


@pytest.mark.parametrize("path", notebook_pages.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_something(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = [result for *_, given in notebook_pages.run(path) for result in given]
    assert any(isinstance(result, Figure | AttentionRecord | DataFrame) for result in results)
    assert any(isinstance(result, str) for result in results)


@pytest.mark.parametrize("path", store_notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_results_of_its_code(path: Path) -> None:
    assert not store_notebooks.differences(path), "run make notebooks"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    assert cells[1]["source"] == [notebook_pages.INSTALL]
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_a_stored_number_that_is_not_the_codes_is_found(tmp_path: Path) -> None:
    (path,) = [path for path in store_notebooks.NOTEBOOKS if path.stem == "cost"]
    text = path.read_text("utf-8")
    assert text.count("75497472") == 1
    (tmp_path / path.name).write_text(text.replace("75497472", "85497472"), "utf-8")
    assert store_notebooks.differences(tmp_path / path.name) == ["-85497472 +75497472"]


FOLDER = Path(__file__).parents[1] / "docs" / "notebooks" / "labs"


def cells(key: str) -> list[tuple[str, str]]:
    """The cells of a notebook: what each is for, and its source."""
    found = json.loads((FOLDER / f"{key}.ipynb").read_text("utf-8"))["cells"]
    return [
        ((cell["metadata"].get("tags") or [cell["cell_type"]])[0], "".join(cell["source"]))
        for cell in found
    ]


def solution(key: str) -> str:
    """The code under "Solution"."""
    text = "".join(source for kind, source in cells(key) if kind == "markdown")
    (code,) = re.findall(r"<summary>Solution</summary>\n\n```python\n(.*?)\n```", text, re.S)
    return code


def run(key: str, *, solved: bool) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    for kind, source in cells(key):
        if kind not in ("markdown", "install"):
            code = solution(key) if solved and kind == "exercise" else source
            exec(compile(code, f"{key}.ipynb, {kind}", "exec"), scope)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)
def test_the_solution_passes_the_check(lab: Any) -> None:
    run(lab.key, solved=True)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)
def test_an_empty_exercise_does_not(lab: Any) -> None:
    with pytest.raises(AssertionError):
        run(lab.key, solved=False)
