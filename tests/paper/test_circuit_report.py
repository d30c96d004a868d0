"""The report of a task: its numbers are those of the functions it names, and its page is deaf."""

from pathlib import Path

import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.circuits.tasks.accuracy import attended
from mha_viz.errors import AttentionUnavailableError
from mha_viz.paper import circuit_report as report

pytestmark = pytest.mark.extended
HOSTILE = "</style><script>alert(1)</script>"
TABLES = {"task", "heads", "attended", "writes", "edges", "curve", "circuit"}


@pytest.fixture(scope="module")
def task(gpt: mv.AttentionModel):
    return mv.make_task(gpt, "induction", n_examples=7)


@pytest.fixture(scope="module")
def folder(gpt: mv.AttentionModel, task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = mv.circuit_report(gpt, task, tmp_path_factory.mktemp("report"), enough=0.8)
    assert page.name == "index.html"
    return page.parent


def rows(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / "tables" / f"{name}.csv", comment="#", keep_default_na=False)


def test_tables_have_the_numbers_of_the_functions(gpt, task, folder: Path) -> None:
    found = {path.stem for path in (folder / "tables").iterdir()}
    assert found == TABLES
    heads = mv.find_heads(gpt, task, 0.8)
    chosen = rows(folder, "heads").query("Chosen == True")
    assert chosen["Head"].tolist() == [f"L{layer} H{head}" for layer, head in heads.heads]
    assert rows(folder, "heads")["Effect"][0] == pytest.approx(float(heads.effect.max()), rel=1e-5)
    looks = attended(gpt, task, heads.heads[:8])
    assert rows(folder, "attended")["weight"].tolist() == pytest.approx(looks["weight"].tolist())
    scores = mv.edge_effects(gpt, task)
    scores.measure(50)
    strongest = scores.table().iloc[0]
    first = rows(folder, "edges").iloc[0]
    assert (first["sender"], first["receiver"]) == (strongest.sender, strongest.receiver)
    assert first["score"] == pytest.approx(strongest.score, rel=1e-5)
    curve = mv.edge_faithfulness(scores)
    assert rows(folder, "curve")["faithfulness"].tolist() == pytest.approx(
        curve.faithfulness.tolist(), abs=1e-5
    )
    assert len(rows(folder, "circuit")) == curve.size_for(0.8)


def test_pairs_of_one_s_own_are_kept_and_only_text(gpt, tmp_path: Path, monkeypatch) -> None:
    """Edges that a family has none of are named, in the page, with the reason."""

    def refuse(*_: object, **__: object) -> None:
        raise AttentionUnavailableError(f"No edges here: {HOSTILE}.")

    monkeypatch.setattr(report, "edge_effects", refuse)
    signs = [(("(", ")"), ("[", "]")), (("[", "]"), ("(", ")"))] * 4
    words = ["the red cat", "the big dog", "a sad king", "a hot box", "an old car", "a bad boy"]
    pairs = [
        (f"{HOSTILE} Tom saw {a[0]}{word}", f"{HOSTILE} Tom saw {b[0]}{word}", a[1], b[1])
        for word, (a, b) in zip(words, signs, strict=False)
    ]
    task = mv.make_task(gpt, pairs)
    page = mv.circuit_report(gpt, task, tmp_path, enough=0.5)
    assert "<script" not in page.read_text("utf-8").replace("&lt;script", "")
    assert "Edges: No edges here" in page.read_text("utf-8")
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == TABLES - {
        "edges",
        "curve",
        "circuit",
    }
    again = mv.make_task(gpt, tmp_path / "pairs.csv")
    assert [one.clean.input_ids for one in again.examples] == [
        one.clean.input_ids for one in task.examples
    ]
    assert not task.left_out
