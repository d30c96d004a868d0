"""The notebooks of the documentation run, and what they say about their results is so."""

import json
import re
from pathlib import Path

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

from docs import notebook_pages, store_notebooks
from mha_viz import AttentionRecord


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
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_a_stored_number_that_is_not_the_codes_is_found(tmp_path: Path) -> None:
    (path,) = [path for path in store_notebooks.NOTEBOOKS if path.stem == "cost"]
    text = path.read_text("utf-8")
    assert text.count("75497472") == 1
    (tmp_path / path.name).write_text(text.replace("75497472", "85497472"), "utf-8")
    assert store_notebooks.differences(tmp_path / path.name) == ["-85497472 +75497472"]


def test_badges_lead_to_the_notebook_in_the_repository_of_the_clone() -> None:
    path = notebook_pages.NOTEBOOKS[0]
    shown = notebook_pages.launchers(path, "https://github.com/us/heads")
    pictures = re.findall(r"!\[[^]]*\]\((.+?)\)", shown)
    assert len(pictures) == 2 and all((path.parent / picture).is_file() for picture in pictures)
    colab, binder = "colab.research.google.com/github", "mybinder.org/v2/gh"
    assert f"https://{colab}/us/heads/blob/HEAD/docs/notebooks/{path.name}" in shown
    assert f"https://{binder}/us/heads/HEAD?labpath=docs%2Fnotebooks%2F{path.name}" in shown
    assert "git+https://github.com/us/heads" in shown


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["no_such_name"]}
    path = tmp_path / "broken.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(NameError) as failed:
        list(notebook_pages.run(path))
    assert "broken.ipynb, cell 0" in [entry.path.__str__() for entry in failed.traceback]
