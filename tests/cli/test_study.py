"""The commands about studies."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.atlas import model_parts
from tests.cli.command import call

LINES = "The cat sat because it was tired.\nRain fell all night.\n\nHe saw her because she came.\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text(LINES)
    return path


@pytest.fixture(scope="module")
def study(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "mine"
    given = ("--out", str(out), str(texts), "--model", "tiny-bert")
    assert "3 texts" in call("study", *given).stdout
    assert "3 texts" in call("study", *given).stdout  # opened, not measured
    return out


def test_show_labels_or_a_metric(study: Path) -> None:
    assert "10" in call("study", "show", str(study)).stderr  # texts that a label takes
    rows = json.loads(call("study", "show", str(study), "--by", "entropy", "-f", "json").stdout)
    means = [row["mean"] for row in rows["rows"]]
    assert len(means) == 32 and means == sorted(means, reverse=True)
    failed = call("study", "show", str(study), "--by", "charm", code=2)
    assert "'charm'" in failed.stderr


def test_search_finds_a_word(study: Path, tmp_path: Path) -> None:
    done = call("study", "search", str(study), "--query", "because", "--limit", "5")
    assert "because" in done.stdout
    out = tmp_path / "found.csv"
    call("study", "search", str(study), "--key", "rain", "--min-weight", "0", "--out", str(out))
    assert "Rain fell all night." in out.read_text()


def test_examples_are_those_of_the_library(study: Path) -> None:
    asked = ("study", "examples", str(study), "--head", "1.2", "--by", "entropy", "--limit", "3")
    for options, matched in (((), True), (("--any-length",), False)):
        shown = pd.read_csv(StringIO(call(*asked, *options, "-f", "csv").stdout))
        found = mv.Study.load(study).examples(1, 2, "entropy", 3, matched)
        assert shown["text"].tolist() == found["text"].tolist()
        assert shown["value"].to_numpy() == pytest.approx(found["value"].to_numpy(), rel=1e-3)
    assert "layer.head" in call(*asked[:4], "2", code=2).stderr
    assert "--head" in call(*asked[:4], "9.9", code=2).stderr


def test_a_treebank_shows_who_finds_which_relation(tmp_path: Path) -> None:
    out = str(tmp_path / "trees")
    call("study", "sample", "--sample", "40", "--model", "tiny-bert", "--out", out)
    done = call("study", "show", out)
    assert "L0 H3" in done.stdout
    rows = json.loads(call("study", "show", out, "--by", "relations", "-f", "json").stdout)["rows"]
    accuracies = [row["accuracy"] for row in rows]
    assert len(rows) % 32 == 0 and accuracies == sorted(accuracies, reverse=True)
    best = call("study", "show", out, "--best", "relations", "-f", "latex").stdout
    assert "\\toprule" in best
    best = call("study", "show", out, "--best", "trees", "-f", "markdown").stdout
    assert best.count("\n| L") == 32
    call("study", "show", out, "--best", "charm", code=2)
    found = call("study", "search", out, "--relation", "obj", "--direction", "to_dependent")
    assert "to_dependent" in found.stdout
    asked = ("--query-upos", "verb", "--key", "*", "--previous", "--min-weight", "0.5")
    found = json.loads(call("study", "search", out, *asked, "-f", "json").stdout)["rows"]
    places = [[int(row[end].split("(")[-1][:-1]) for end in ("query", "key")] for row in found]
    assert found and all(query == key + 1 for query, key in places)


def test_verify_names_the_file_that_has_changed(study: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(study, own)
    assert "as they were written" in call("study", "verify", str(own)).stdout
    changed = own / "study.duckdb"
    content = bytearray(changed.read_bytes())
    for at in range(20_000, len(content), 65_536):
        content[at] ^= 1
    changed.write_bytes(content)
    failed = call("study", "verify", str(own), code=2)
    assert "study.duckdb" in failed.stderr and failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.txt", "--out", "x"], "nowhere.txt"),
        (["show", "nowhere"], "no study"),
        (["compare", "nowhere", "folder"], "no study"),
        (["compare", "nowhere", "folder", "--limit", "-3"], "--limit"),
        (["texts.txt", "--out", "folder"], "folder"),
        (["texts.txt", "--out", "x", "--sample", "0"], "1 or more"),
        (["empty.txt", "--out", "x"], "no text"),
        (["texts.txt", "--out", "x", "--join", "document"], "document"),
        (["table.csv", "--out", "x", "--column", "body"], "body"),
        (["texts.txt", "--out", "x", "--cluster", "127.0.0.1:9"], "127.0.0.1:9"),
        (["texts.txt", "--out", "s3://bucket/x"], "cluster"),
        (["show", "s3://bucket/x"], "folder"),
    ],
)
def test_bad_input_is_one_sentence(
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(texts, tmp_path / "texts.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "table.csv").write_text("text,n\nIt slept.,1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").write_text("mine")
    done = call("study", *arguments, code=2)
    assert told in done.stderr and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert not (tmp_path / "x").exists() and (tmp_path / "folder/mine").read_text() == "mine"


def test_an_atlas_is_a_folder_that_opens_by_itself(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_parts, "MAX_WORDS", 97)  # words of 32 heads take seconds
    done = call("atlas", str(study), "--out", str(tmp_path / "site"), "--by", "distance")
    assert str(tmp_path / "site" / "index.html") in done.stderr
    page = (tmp_path / "site" / "heads" / "L3H7.html").read_text("utf-8")
    assert "Examples by Distance<" in page and page.count("data-text=") == 3
    failed = call("atlas", str(study), "--out", str(tmp_path / "none"), "--by", "charm", code=2)
    assert "'charm'" in failed.stderr and not (tmp_path / "none").exists()
    failed = call("atlas", str(study), "--out", str(tmp_path / "none"), "-m", "tiny-gpt2", code=2)
    assert "tiny-gpt2" in failed.stderr
