"""The report of a study: complete, self-contained, and deaf to hostile texts."""

import csv
import json
import shlex
from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.errors import ArgumentError
from mha_viz.paper import report
from mha_viz.web.theme import format_number
from tests.making.tags import Tags

HOSTILE = "</style><script>alert(1)</script>"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    out = tmp_path_factory.mktemp("study") / "sample"
    return mv.study(mv.load("tiny-bert"), "sample", out, sample=97, seed=3)


@pytest.fixture(scope="module")
def folder(study: mv.Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = study.report(tmp_path_factory.mktemp("report"), "distance", (1, 2), "double")
    assert page.name == "index.html"
    return page.parent


def test_the_page_asks_for_nothing_and_runs_nothing(folder: Path) -> None:
    page = Tags((folder / "index.html").read_text("utf-8"))
    names = {tag for tag, _ in page.seen}
    assert not names & {"script", "link", "iframe", "object", "base", "form"}
    policy = next(of["content"] for tag, of in page.seen if tag == "meta" and "content" in of
                  and "default-src" in str(of["content"]))  # fmt: skip
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for tag, of in page.seen:
        assert not [name for name in of if name.startswith("on")]
        assert tag != "img" or str(of["src"]).startswith("data:image/svg+xml;base64,")
        assert tag != "a" or str(of["href"]).startswith("#")
    anchors = {str(of["id"]) for _, of in page.seen if "id" in of}
    assert {str(of["href"])[1:] for tag, of in page.seen if tag == "a"} <= anchors


def test_the_page_has_the_tables_of_the_study(study: mv.Study, folder: Path) -> None:
    page = (folder / "index.html").read_text("utf-8")
    assert "None" not in page and "nan" not in page
    best = study.best_heads()
    for row in best.to_dict("records"):
        assert f"<td>{format_number(row['accuracy'])}</td>" in page
        assert f"<td>{row['verdict']}</td>" in page
    row = study.heads.query("metric == 'distance' and layer == 1 and head == 2").iloc[0]
    numbers = [format_number(row[name]) for name in ("mean", "low", "high")]
    assert "{} ({} to {})".format(*numbers) in page
    for part in (study.manifest["model"]["weights_sha256"], study.unit_note):
        assert part in page


def test_every_table_and_figure_is_a_file_with_the_study_s_numbers(study, folder: Path) -> None:
    tables = {"relations", "trees", "coreference", "parts_of_speech", "labels", "metrics", "pairs"}
    tables -= {"coreference"} if study.best_heads("coreference").empty else set()
    names = {path.name for path in (folder / "tables").iterdir()}
    assert names == {f"{name}.{ending}" for name in tables for ending in ("csv", "md", "tex")}
    figures = {"heads", "scatter", "quantiles", "histogram", "offset", "kind", "pairs"}
    figures |= {"parts_of_speech"}
    names = {path.name for path in (folder / "figures").iterdir()}
    assert names == {f"{name}.{ending}" for name in figures for ending in ("pdf", "svg")}
    lines = (folder / "tables" / "metrics.csv").read_text("utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [float(row["Low"]) for row in rows] == pytest.approx(study.heads["low"].tolist())
    assert study.unit_note in lines[1]
    assert "\\toprule" in (folder / "tables" / "relations.tex").read_text("utf-8")


@pytest.mark.extended
def test_hostile_names_are_shown_as_they_are(study: mv.Study, tmp_path, monkeypatch) -> None:
    hostile = json.loads(json.dumps(study.manifest))
    hostile["model"]["name"] = hostile["source_name"] = HOSTILE
    hostile["source"]["column"] = f"'; rm -rf ~ #{HOSTILE}"
    made = mv.Study(study.folder, hostile)
    page = made.report(tmp_path / "report").read_text("utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert page.count("</style>") == 2
    (line, *_) = report.commands(made)
    words = shlex.split(line)
    assert words[words.index("--column") + 1] == hostile["source"]["column"]


def test_a_folder_that_holds_a_study_is_refused(study: mv.Study) -> None:
    before = sorted(study.folder.rglob("*"))
    with pytest.raises(ArgumentError):
        study.report(study.folder)
    assert sorted(study.folder.rglob("*")) == before
