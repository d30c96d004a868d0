"""The commands about studies."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

import mha_viz as mv
from tests.cli.command import call
from tests.making.trees import document

LINES = "The cat sat because it was tired.\nRain fell all night.\n\nHe saw her because she came.\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text(LINES)
    return path


@pytest.fixture(scope="module")
def study(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "mine"
    done = call("study", str(texts), "--model", "tiny-bert", "--out", str(out))
    assert (
        "tiny-bert over 3 texts" in done.stdout and "each text as one unit (n = 3)" in done.stdout
    )
    return out


def test_the_same_command_again_opens_it(texts: Path, study: Path) -> None:
    done = call("study", "--out", str(study), str(texts))
    assert "3 texts" in done.stdout


@pytest.mark.extended
def test_make_of_very_many_texts_suggests_to_keep_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mha_viz.corpus.sources.source.SHARD_TEXTS", 2)
    monkeypatch.setattr("mha_viz.corpus.run.progress.MANY", 16)
    (tmp_path / "texts.txt").write_text("\n".join(f"The cat sat {i} times." for i in range(17)))
    given = ("study", str(tmp_path / "texts.txt"), "--batch-tokens", "32")
    done = call(*given, "--out", str(tmp_path / "kept"))
    assert done.stderr.count("with --no-texts") == 1 and "of about 17 texts" in done.stderr
    assert "--no-texts" not in call(*given, "--no-texts", "--out", str(tmp_path / "sums")).stderr
    monkeypatch.setattr("mha_viz.corpus.run.progress.MANY", 17)
    assert "--no-texts" not in call(*given, "--out", str(tmp_path / "few")).stderr


def test_show_labels_or_a_metric(study: Path) -> None:
    done = call("study", "show", str(study))
    assert "with each text as one unit there are 3, and 10 are needed" in done.stderr
    rows = json.loads(call("study", "show", str(study), "--by", "entropy", "-f", "json").stdout)
    means = [row["mean"] for row in rows["rows"]]
    assert len(means) == 32 and means == sorted(means, reverse=True)
    failed = call("study", "show", str(study), "--by", "charm", code=2)
    assert "no metric 'charm'" in failed.stderr


def test_search_finds_a_word(study: Path, tmp_path: Path) -> None:
    done = call("study", "search", str(study), "--query", "because", "--limit", "5")
    assert "because (" in done.stdout and "5 found" in done.stdout
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


def test_a_treebank_shows_who_finds_which_relation(tmp_path: Path) -> None:
    out = str(tmp_path / "trees")
    call("study", "sample", "--sample", "40", "--out", out)
    done = call("study", "show", out)
    assert "previous_token" in done.stdout and "L0 H3" in done.stdout
    assert "chosen on half" in done.stdout and "offset_baseline" in done.stdout
    rows = json.loads(call("study", "show", out, "--by", "relations", "-f", "json").stdout)["rows"]
    accuracies = [row["accuracy"] for row in rows]
    assert len(rows) % 32 == 0 and accuracies == sorted(accuracies, reverse=True)
    best = call("study", "show", out, "--best", "relations", "-f", "latex").stdout
    assert "\\toprule" in best and "{verdict}" in best and "as one unit" in best
    best = call("study", "show", out, "--best", "trees", "-f", "markdown").stdout
    assert best.count("\n| L") == 32
    failed = call("study", "show", out, "--best", "charm", code=2)
    assert "relations, trees, coreference, parts_of_speech" in failed.stderr
    found = call("study", "search", out, "--relation", "obj", "--direction", "to_dependent")
    assert "to_dependent" in found.stdout and "20 found" in found.stdout
    failed = call("study", "search", out, "--relation", "obj", "--direction", "up", code=2)
    assert "not one of 'to_head', 'to_dependent'" in failed.stderr
    asked = ("--query-upos", "verb", "--key", "*", "--previous", "--min-weight", "0.5")
    found = json.loads(call("study", "search", out, *asked, "-f", "json").stdout)["rows"]
    places = [[int(row[end].split("(")[-1][:-1]) for end in ("query", "key")] for row in found]
    assert found and all(query == key + 1 for query, key in places)


@pytest.mark.extended
def test_two_treebanks_are_compared_and_reported(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("tiny-bert", "tiny-gpt2")]
    for folder in folders:
        call("study", "sample", "--sample", "40", "--model", Path(folder).name, "--out", folder)
    for by, columns in (("trees", {"head"}), ("best", {"head_a", "head_b"})):
        done = call("study", "compare", *folders, "--by", by, "--limit", "5", "-f", "json")
        rows = json.loads(done.stdout)["rows"]
        assert len(rows) == 5 and {"difference", "low", "q", "better", *columns} <= rows[0].keys()
    done = call("study", "compare", *folders, "--by", "distributions", "--limit", "5")
    assert "apart" in done.stdout and "50%_a" in done.stdout
    done = call("study", "compare", *folders, "--by", "matched", "--limit", "3", "-f", "csv")
    assert done.stdout.startswith('"head_a","head_b","distance","as_near"')
    failed = call("study", "compare", *folders, "--by", "charm", code=2)
    assert "relations, trees, coreference, best" in failed.stderr
    out = tmp_path / "report"
    done = call("study", "report", folders[0], "--out", str(out), "--head", "1.2")
    assert f"wrote {out / 'index.html'}" in done.stderr
    failed = call("study", "report", folders[0], "--out", folders[0], code=2)
    assert "holds a study" in failed.stderr


def test_one_treebank_chooses_and_another_reports(tmp_path: Path) -> None:
    for name, seed in (("dev", "1"), ("test", "2")):
        source = ("study", "sample", "--sample", "30", "--seed", seed)
        call(*source, "--out", str(tmp_path / name))
    arguments = ("study", "show", str(tmp_path / "test"), "--chosen-on", str(tmp_path / "dev"))
    assert (
        "heads chosen on dev for a relation, and what they find on test" in call(*arguments).stdout
    )
    failed = call(*arguments[:-1], str(tmp_path / "test"), code=2)
    assert "are of the same sentences" in failed.stderr


def test_compare_two_studies(study: Path, texts: Path, tmp_path: Path) -> None:
    call("study", str(texts), "--sample", "2", "--out", str(tmp_path / "b"))
    done = call("study", "compare", str(study), str(tmp_path / "b"), "-f", "json")
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 20 and "standard_errors" in rows[0]


def test_verify_names_the_file_that_has_changed(study: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(study, own)
    assert "are as they were written" in call("study", "verify", str(own)).stdout
    changed = own / "heads.parquet"
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    failed = call("study", "verify", str(own), code=2)
    assert "heads.parquet" in failed.stderr and failed.stderr.count("\n") == 1
    assert "heads.parquet" in call("study", "show", str(own), code=2).stderr


def test_what_could_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "It slept."}\n{"text": \n{"text": "Gone."}\n')
    source, out = str(tmp_path / "texts.jsonl"), str(tmp_path / "out")
    done = call("study", source, "--out", out)
    assert "2 texts" in done.stdout
    assert "1 could not be read" in done.stderr and "texts.jsonl:2" in done.stderr


def test_texts_that_were_cut_are_told(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("It slept.\n" + "cat " * 300 + "\n")
    out = str(tmp_path / "out")
    done = call("study", str(tmp_path / "texts.txt"), "--out", out)
    shown = call("study", "show", out, "--by", "entropy", "-f", "json")
    for told in (done.stderr, shown.stderr):
        assert "Cut to the 128 tokens that tiny-bert takes: 1 of 2 texts" in told
    assert json.loads(shown.stdout)["rows"]


def test_a_document_is_a_text_where_sentences_are_joined(tmp_path: Path) -> None:
    """Four sentences of one document, which tiny-bert's 128 tokens part into two texts."""
    word = "cat/NOUN/0/root/Entity=(e1) " + "x/X/1/dep " * 40
    (tmp_path / "trees.conllu").write_text(document(*[word] * 4))
    source, out = str(tmp_path / "trees.conllu"), str(tmp_path / "out")
    done = call("study", source, "--out", out, "--join", "document")
    assert "2 texts" in done.stdout
    for told in (done.stderr, call("study", "show", out, "--by", "entropy").stderr):
        assert "1 of 2 texts go on with a document that is longer than 128 tokens" in told
        assert "1 mention in them had antecedents in earlier texts alone" in told
    failed = call("study", source, "--out", out, code=2)
    assert "other settings (join: document there, None here)" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.txt", "--out", "x"], "nowhere.txt"),
        (["show", "nowhere"], "is no study"),
        (["verify", "nowhere"], "is no study"),
        (["search", "nowhere"], "is no study"),
        (["compare", "nowhere", "folder"], "is no study"),
        (["texts.txt", "--out", "folder"], "other things"),
        (["texts.txt", "--out", "x", "--sample", "0"], "1 or more"),
        (["empty.txt", "--out", "x"], "no text"),
        (["texts.txt", "--out", "x", "--join", "document"], "no document to join"),
        (["sample", "--out", "x", "--join", "all"], "is not one of 'document'"),
        (["table.csv", "--out", "x", "--column", "body"], "body"),
        (["texts.txt", "--out", "x", "--cluster", "127.0.0.1:9"], "no Ray cluster at 127.0.0.1:9"),
        (["texts.txt", "--out", "s3://bucket/x"], "an address, which takes a cluster"),
        (["show", "s3://bucket/x"], "copy the study into a folder first"),
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
