"""The notebooks of the documentation run, and what they say about their results is so."""

import json
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
    assert cells[1]["source"] == [notebook_pages.INSTALL]
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_a_stored_number_that_is_not_the_codes_is_found(tmp_path: Path) -> None:
    (path,) = [path for path in store_notebooks.NOTEBOOKS if path.stem == "cost"]
    text = path.read_text("utf-8")
    assert text.count("75497472") == 1
    (tmp_path / path.name).write_text(text.replace("75497472", "85497472"), "utf-8")
    assert store_notebooks.differences(tmp_path / path.name) == ["-85497472 +75497472"]
