"""The notebooks of the documentation run, and what they say about their results is so."""

import json
from pathlib import Path

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

from docs import notebook_pages
from mha_viz import AttentionRecord


@pytest.mark.parametrize("path", notebook_pages.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_something(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = [result for *_, given in notebook_pages.run(path) for result in given]
    assert any(isinstance(result, Figure | AttentionRecord | DataFrame) for result in results)
    assert any(isinstance(result, str) for result in results)


@pytest.mark.parametrize("path", notebook_pages.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_results(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")


def test_there_are_three() -> None:
    names = [path.stem for path in notebook_pages.NOTEBOOKS]
    assert names == ["comparing-heads", "first-steps", "switching-heads-off"]


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["no_such_name"]}
    path = tmp_path / "broken.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(NameError) as failed:
        list(notebook_pages.run(path))
    assert "broken.ipynb, cell 0" in [entry.path.__str__() for entry in failed.traceback]
