"""Datasets of Hugging Face as sources and as results: the same numbers as of strings."""

import sys
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.sources.source import Source, open_source
from mha_viz.errors import ArgumentError, MissingPackageError, SourceError, StudyError
from tests.corpus.small_studies import TEXTS
from tests.missing import skip_or_fail

ROWS = {
    "label": [3, 3, 5, 5, 5],
    "id": ["u", "v", "w", "x", "y"],
    "text": ["One.", "Two\u2028lines\nhere.", None, "Dört.", "One."],
}


@pytest.fixture
def hugging() -> Any:
    """The library, which is an extra."""
    try:
        import datasets
    except ImportError:
        skip_or_fail('the library datasets is not installed (pip install ".[datasets]")')
    return datasets


@pytest.fixture
def dataset(hugging: Any) -> Any:
    return hugging.Dataset.from_dict(ROWS)


def read(source: Source) -> list[tuple[str, str]]:
    return [(item.location, item.text) for item in source]


EXPECTED = [("1", "One."), ("2", "Two\u2028lines\nhere."), ("4", "Dört.")]


def test_a_dataset_in_memory_streamed_or_saved_has_the_same_texts(
    dataset: Any, tmp_path: Path
) -> None:
    dataset.save_to_disk(str(tmp_path / "saved"))
    streamed = dataset.to_iterable_dataset(num_shards=2)
    shown = dataset.with_transform(lambda rows: {"text": ["another"]})  # for training, not for us
    given = {"dataset": [dataset, streamed, shown], "saved": [tmp_path / "saved"]}
    hashes = set()
    for name, several in given.items():
        for one in several:
            source = open_source(one)
            for _ in range(2):
                assert read(source) == [(f"{name}:{at}", text) for at, text in EXPECTED]
                assert source.skipped == [(f"{name}:3", "The text is empty.")]
                assert (source.n_duplicates, source.unit) == (1, "text")
            hashes.add(source.identity()["files"][0]["sha256"])
    assert len(hashes) == 1  # of the texts, and of nothing that a library adds


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"column": "title"}, "“title”.*“label”, “id”, “text”"),
        ({"column": "label"}, "“label”"),
        ({"group": "author"}, "“author”"),
    ],
)
def test_a_column_that_is_not_there(dataset: Any, options: dict[str, str], reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        open_source(dataset, **options)


def test_datasets_that_hold_nothing_or_too_much(hugging: Any, dataset: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="dataset"):
        open_source(dataset.select([]))
    with pytest.raises(SourceError, match=r"dataset .*“label”, “id”, “other”"):
        open_source(dataset.rename_column("text", "other"))
    both = hugging.DatasetDict(train=dataset, test=dataset)
    both.save_to_disk(str(tmp_path / "both"))
    for name, source in (("dataset", both), ("both", tmp_path / "both")):
        with pytest.raises(SourceError, match=f"{name}.*train, test"):
            open_source(source)
    assert len(read(open_source(tmp_path / "both/test"))) == 3
    assert len(read(open_source(hugging.DatasetDict(test=dataset)))) == 3
    for arrow in (tmp_path / "both/train").glob("*.arrow"):
        arrow.write_bytes(b"damaged")
    with pytest.raises(SourceError, match="train"):
        open_source(tmp_path / "both/train")


@pytest.mark.parametrize(
    ("spelled", "asked"),
    [
        ("hf:imdb", ("hf://datasets/imdb", None, None)),
        ("hf:stanfordnlp/imdb:test", ("hf://datasets/stanfordnlp/imdb", None, "test")),
        (
            "hf:Salesforce/wikitext/wikitext-2-raw-v1:train[:1%]",
            ("hf://datasets/Salesforce/wikitext", "wikitext-2-raw-v1", "train[:1%]"),
        ),
    ],
)
def test_a_name_on_the_hub(
    hugging: Any,
    dataset: Any,
    spelled: str,
    asked: tuple[str | None, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def load(name: str, config: str | None, *, split: str | None) -> Any:
        seen.append((name, config, split))
        return dataset if split else {"only": dataset}

    monkeypatch.setattr(hugging, "load_dataset", load)
    assert read(open_source(spelled)) == [(f"{spelled}:{at}", text) for at, text in EXPECTED]
    assert seen == [asked]


@pytest.mark.parametrize("name", ["text", "csv", "json:train", "imagefolder", "buckets/a"])
def test_a_name_on_the_hub_reads_no_files_of_the_working_directory(
    hugging: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("One.\n")
    (tmp_path / "secret.csv").write_text("text\nOne.\n")
    (tmp_path / "secret.json").write_text('{"text": "One."}\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="hf:OWNER/NAME"):
        open_source(f"hf:{name}")


def test_names_that_cannot_be_loaded(hugging: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, config: str | None, *, split: str | None) -> Any:
        raise hugging.exceptions.DatasetNotFoundError("Dataset 'a/b' doesn't exist on the Hub.")

    monkeypatch.setattr(hugging, "load_dataset", load)
    with pytest.raises(SourceError, match=r"hf:a/b:test.*exist on"):
        open_source("hf:a/b:test")
    for wrong in ("hf:", "hf:a/b/c/d", "hf:../secret", "hf:a b", "hf:/etc/x"):
        with pytest.raises(ArgumentError, match=r"hf:OWNER/NAME.*“hf:"):
            open_source(wrong)


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'mha-viz\[datasets\]'"):
        open_source("hf:stanfordnlp/imdb:test")


def test_a_study_of_a_dataset_is_that_of_its_texts(hugging: Any, bert: Any, tmp_path: Path) -> None:
    """Go on with the same rows alone; the tables are datasets."""
    given = hugging.Dataset.from_dict({"text": TEXTS})
    made = mv.study(bert, given, tmp_path / "made")
    plain = mv.study(bert, TEXTS, tmp_path / "plain")
    assert made.heads.equals(plain.heads) and made.n_texts == len(TEXTS)
    [file] = made.manifest["source"]["files"]
    assert file["name"] == "dataset" and len(file["sha256"]) == 64
    again = hugging.Dataset.from_dict({"text": TEXTS, "more": range(len(TEXTS))})
    assert mv.study(bert, again, tmp_path / "made").heads.equals(made.heads)
    with pytest.raises(StudyError, match="source"):
        mv.study(bert, hugging.Dataset.from_dict({"text": TEXTS[1:]}), tmp_path / "made")

    for table in ("heads", "texts"):
        found = made.to_dataset(table)
        assert isinstance(found, hugging.Dataset)
        assert found.to_pandas().equals(made.sql(f"select * from {table}"))
    with pytest.raises(ArgumentError, match=r"table.*heads.*'nothing'"):
        made.to_dataset("nothing")
