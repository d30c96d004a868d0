"""Studies of a treebank: what they say of the gold trees, against plain loops; cut in any way."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.sources.source import open_source
from mha_viz.corpus.treebank.relations import ALL
from mha_viz.corpus.treebank.trees import REPORT, Sentence, read_conllu, sample_lines
from mha_viz.errors import ArgumentError, StudyError
from tests.corpus.small_studies import study_in_shards
from tests.making.trees import plain_relations, sample

EVERY = 8  # of the shipped treebank's sentences


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some sentences of the shipped treebank, and among them a line of a plain text's folder."""
    blocks = "\n".join(sample_lines()).strip().split("\n\n")
    folder = tmp_path_factory.mktemp("trees") / "source"
    folder.mkdir()
    (folder / "a.txt").write_text("A plain text has no tree.\nNor does this one have any.\n")
    (folder / "b.conllu").write_text("\n\n".join(blocks[::EVERY]) + "\n\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def sentences(treebank: Path) -> list[Sentence]:
    lines = (treebank / "b.conllu").read_text("utf-8").splitlines()
    return [found.sentence for found in read_conllu(lines)]


@pytest.fixture(scope="module")
def whole(bert: Any, treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    """All in one shard."""
    return mv.study(bert, treebank, tmp_path_factory.mktemp("whole") / "study")


@pytest.fixture(scope="module")
def parts(bert: Any, treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    """Make a study in shards of two texts, the first of them without a tree."""
    return study_in_shards(2, bert, treebank, tmp_path_factory.mktemp("parts") / "study")


def counted(study: mv.Study, table: str, layer: int, head: int) -> pd.DataFrame:
    rows = study.sql(f"select * from {table} where layer = {layer} and head = {head}")
    return rows[rows.relation != ALL].set_index(["half", "relation", "direction"])


@pytest.mark.parametrize(("layer", "head"), [(0, 3), (2, 6)])
@pytest.mark.parametrize("table", ["relations", "untrained_relations"])
def test_relations_are_what_a_plain_loop_counts(
    whole: mv.Study, bert: Any, sentences: list[Sentence], table: str, layer: int, head: int
) -> None:
    model = bert if table == "relations" else untrained_copy(bert)
    records = [model.trace(sentence.text, keep=("pattern",)) for sentence in sentences]
    n, hits = plain_relations(
        [
            (record.pattern[layer, head].numpy(), record.tokens, sentence)
            for record, sentence in zip(records, sentences, strict=True)
        ],
        causal=False,
    )
    found = counted(whole, table, layer, head)
    assert found.n.to_dict() == n and found.hits.to_dict() == hits
    rows = whole.relations.set_index(["layer", "head", "relation", "direction"])
    rows = rows.sort_index().loc[layer, head]
    column = "accuracy" if table == "relations" else "random_baseline"
    for (relation, direction), row in rows[rows.index.get_level_values(0) != ALL].iterrows():
        place = (REPORT, relation, direction)
        assert row[column] == pytest.approx(hits[place] / n[place])


def test_counts_of_units_add_up_to_those_of_all(whole: mv.Study) -> None:
    for name in ("relations", "untrained_relations", "relation_offsets"):
        rows = whole.sql(f"FROM {name}")
        for total in ("n", "hits"):
            units = rows[[f"{total}_u{unit}" for unit in range(64)]]
            assert (units.sum(axis=1) == rows[total]).all() and (units > 0).sum(axis=1).max() > 1


TABLES = ["relations", "parts_of_speech", "trees", "coreference"]


def test_a_search_by_what_trees_have_not_is_refused(whole: mv.Study) -> None:
    with pytest.raises(ArgumentError, match="direction"):
        whole.search(direction="to_head")
    with pytest.raises(ArgumentError, match="ADJ, ADP"):
        whole.search(key_upos="VRB")


def test_one_treebank_chooses_and_another_reports(
    whole: mv.Study, bert: Any, sentences: list[Sentence], tmp_path: Path
) -> None:
    blocks = "\n".join(sample_lines()).strip().split("\n\n")[1::EVERY]
    (tmp_path / "dev.conllu").write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    dev = mv.study(bert, tmp_path / "dev.conllu", tmp_path / "dev")
    found = whole.chosen_on(dev)
    for table, columns in (
        ("relations", ("n", "hits")),
        ("trees", ("n_arcs", "hits")),
        ("coreference", ("n", "hits")),
    ):
        where = ["relation", "direction"] * (table == "relations") + ["layer", "head"]
        sums = [
            one.sql(f"select * from {table}").groupby(where)[list(columns)].sum()
            for one in (dev, whole)
        ]
        rows = getattr(found, table).set_index(where)
        assert len(rows) and len(rows) >= len(getattr(whole, table))
        chosen, reported = (one.loc[rows.index] for one in sums)
        accuracy = "uuas" if table == "trees" else "accuracy"
        n, hits = columns
        assert rows[n].tolist() == reported[n].tolist()
        np.testing.assert_allclose(rows[accuracy], reported[hits] / reported[n])
        np.testing.assert_allclose(rows["chosen_on"], chosen[hits] / chosen[n])
        assert rows["random_baseline"].notna().all()
    best = found.relations.groupby(["relation", "direction"])["chosen_on"].max()
    winners = found.relations.query("chosen").set_index(["relation", "direction"])
    assert winners["chosen_on"].sort_index().tolist() == best.sort_index().tolist()
    assert whole.relations["n"].sum() < found.relations["n"].sum()  # it is left as it was


def test_heads_are_not_chosen_where_they_are_reported(
    whole: mv.Study, parts: mv.Study, made: mv.Study, treebank: Path, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match="same sentences"):
        whole.chosen_on(parts)
    with pytest.raises(StudyError, match=made.folder.name):
        whole.chosen_on(made)
    with pytest.raises(StudyError, match=made.folder.name):
        made.chosen_on(whole)
    other = mv.study(mv.load("tiny-gpt2"), treebank, tmp_path / "gpt2")
    with pytest.raises(StudyError, match="tiny-gpt2"):
        whole.chosen_on(other)


def test_a_study_gives_back_its_sentences_with_their_trees(
    parts: mv.Study, sentences: list[Sentence]
) -> None:
    numbers = parts.sql("select text_id, text from sentences").set_index("text")["text_id"]
    for sentence in sentences:
        found = parts.sentence(int(numbers[sentence.text]))
        assert found.text == sentence.text and found.words == sentence.words
    with pytest.raises(ArgumentError, match="tree"):
        parts.sentence(int(numbers["A plain text has no tree."]))


@pytest.mark.parametrize("name", TABLES)
def test_a_study_without_trees_says_so(made: mv.Study, name: str) -> None:
    with pytest.raises(StudyError, match="CoNLL-U"):
        getattr(made, name)


def test_the_word_sample_is_the_shipped_treebank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(open_source("sample"))
    assert [item.sentence for item in found] == sample()
    assert [item.text for item in found] == [item.sentence.text for item in found]
    (tmp_path / "sample").write_text("A file of that name wins.\n")
    assert [item.text for item in open_source("sample")] == ["A file of that name wins."]
