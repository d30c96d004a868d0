"""Questions to a study, and what it refuses."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.query.comparison import compare
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.corpus.store.study_file import FILE, FORMAT
from mha_viz.errors import ArgumentError, StudyError
from tests.corpus.small_studies import TEXTS, changed


@pytest.fixture
def copy(made: Study, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folder, tmp_path / "copy"))


# -- examples and search ---------------------------------------------------------------------------


def test_examples_come_by_their_value_and_once(made: Study) -> None:
    found = made.examples(0, 3, by="previous_token", k=20, match_length=False)
    assert found["value"].is_monotonic_decreasing
    assert len(found) == len(TEXTS) - 1  # two differ in capitals and spaces alone
    nearest = made.examples(0, 3, by="local", match_length=False)
    assert nearest["value"].is_monotonic_increasing
    best = made.texts.filter("layer = 0 and head = 3").df()["previous_token"].max()
    assert found["value"][0] == best


def test_sampled_texts_are_the_studys_and_follow_their_seed(made: Study) -> None:
    every = made.sample_texts(999)
    assert len(every) == made.n_texts and set(every) <= set(TEXTS)
    some = made.sample_texts(3, seed=5)
    assert some == made.sample_texts(5, seed=5)[:3] and set(some) < set(every)
    assert made.sample_texts(999, seed=6) != every
    with pytest.raises(ArgumentError, match=r"n .*0"):
        made.sample_texts(0)


@pytest.mark.parametrize(
    ("by", "metric", "sign"), [("entropy", "entropy", 1), ("local", "distance", -1)]
)
def test_examples_of_like_length_are_those_that_pandas_finds(
    by: str, metric: str, sign: int
) -> None:
    study = Study.load(shipped_folder() / "tiny-bert" / FOLDER)
    rows = study.texts.filter("layer = 2 and head = 3").df()
    rows["value"] = sign * rows[metric].astype(float)
    ends = rows["n_tokens"].quantile([0.2, 0.4, 0.6, 0.8]).to_numpy()
    rows["class"] = [sum(n > end for end in ends) for n in rows["n_tokens"]]
    alike = rows.groupby("class")
    rows["above"] = rows["value"] - alike["value"].transform("mean")
    rows["rank"] = alike["value"].rank(ascending=False, method="first")
    rows = rows.sort_values(["rank", "above"], ascending=[True, False])
    found = study.examples(2, 3, by=by, k=17)
    assert found["text_id"].tolist() == rows["text_id"].tolist()[:17]
    assert len(set(zip(found["class_from"][:5], found["class_to"][:5], strict=True))) == 5
    for row in found.itertuples():
        like = rows[rows["n_tokens"].between(row.class_from, row.class_to)]
        assert row.class_mean == pytest.approx(sign * like["value"].mean(), rel=1e-6)


def test_examples_of_what_is_not_there(made: Study) -> None:
    with pytest.raises(ArgumentError, match="'x\" from texts --'"):
        made.examples(0, 0, by='x" from texts --')
    with pytest.raises(ArgumentError, match=r"layer .*0.*3"):
        made.examples(4, 0)
    with pytest.raises(ArgumentError, match=r"k .*1"):
        made.examples(0, 0, k=0)


def test_signs_of_sql_are_letters_in_a_search(made: Study) -> None:
    assert made.search("_").empty or set(made.search("_")["query_token"]) == {"_"}
    assert set(made.search("*%*", min_weight=0)["query_token"]) == {"%"}
    found = made.search("be*", min_weight=0)
    assert set(found["query_token"]) == {"because"}
    assert set(found["text"]) == {text for text in TEXTS if "because" in text}
    assert made.search("' OR 1=1 --").empty
    with pytest.raises(ArgumentError, match="empty"):
        made.search(" ")


@pytest.mark.parametrize(
    "asked", [{"relation": "nsubj"}, {"query_upos": "VERB"}, {"key_upos": "X"}]
)
def test_a_search_by_tree_or_part_of_speech_needs_trees(made: Study, asked: dict) -> None:
    with pytest.raises(StudyError, match="CoNLL-U"):
        made.search(**asked)


# -- SQL -------------------------------------------------------------------------------------------


def test_sql_sees_every_table(made: Study) -> None:
    n = made.sql("select count(distinct text_id) as n from texts join sentences using (text_id)")
    assert n["n"][0] == len(TEXTS)
    names = set(made.sql("select table_name as n from information_schema.tables")["n"])
    assert {"texts", "untrained", "chance", "sentences", "edges", "heads", "labels"} <= names
    assert {"text_id", "entropy_uniform"} <= set(made.sql("select * from chance limit 1"))


@pytest.mark.parametrize(
    "query",
    [
        "copy texts to 'out.parquet'",
        "drop view edges",
        "drop table texts",
        "create table x as select 1",
        "attach 'other.db'",
        "set enable_external_access = true",
        "select 1; select 2",
        "",
        "selec",
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('/etc/passwd')",
        "select * from nothing",
        "select * from Study",
    ],
)
def test_sql_reads_the_study_and_nothing_else(made: Study, query: str) -> None:
    before = sorted(made.folder.rglob("*"))
    with pytest.raises(ArgumentError):
        made.sql(query)
    assert sorted(made.folder.rglob("*")) == before


# -- two studies -----------------------------------------------------------------------------------


def test_other_texts_differ_by_their_standard_errors(made: Study, bert, tmp_path: Path) -> None:
    other = mv.study(bert, TEXTS[3:], tmp_path / "other")
    found = compare(made, other).set_index(["layer", "head", "metric"])
    a, b = (s.heads.set_index(["layer", "head", "metric"]) for s in (made, other))
    place = (1, 2, "entropy")
    error = np.hypot(
        a["std"][place] / np.sqrt(len(TEXTS)), b["std"][place] / np.sqrt(len(TEXTS) - 3)
    )
    assert found["standard_error"][place] == pytest.approx(error)
    expected = (b["mean"][place] - a["mean"][place]) / error
    assert found["standard_errors"][place] == pytest.approx(expected)


# -- damage ----------------------------------------------------------------------------------------


def test_what_is_no_study(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(StudyError, match=r"study\.duckdb"):
        Study.load(tmp_path)
    with pytest.raises(StudyError, match="nowhere"):
        Study.load(tmp_path / "nowhere")
    newer = f"""UPDATE manifest SET
        content = replace(content, '"format": {FORMAT}', '"format": {FORMAT + 1}')"""
    with pytest.raises(StudyError, match="newer mha-viz"):
        Study.load(changed(copy, newer))


@pytest.mark.parametrize("content", ["", "{}", '{"format": "1"}'])
def test_a_manifest_that_was_edited(copy: Path, content: str) -> None:
    with pytest.raises(StudyError, match=r"says of itself"):
        Study.load(changed(copy, f"UPDATE manifest SET content = '{content}'"))


@pytest.mark.parametrize("how", ["cut", "gone", "other", "longer", "log"])
def test_a_damaged_file(copy: Path, how: str) -> None:
    path = copy / FILE
    content = path.read_bytes()
    whole = {"cut": content[: len(content) // 2], "other": b"x" * len(content), "log": content}
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(whole.get(how, content * 2))
    if how == "log":
        path.with_name(f"{FILE}.wal").write_bytes(b"WAL")
    if how == "longer":  # what lies behind the end of a database belongs to nobody
        assert Study.load(copy).n_texts == len(TEXTS)
        return
    with pytest.raises(StudyError, match=r"study\.duckdb"):
        Study.load(copy)
