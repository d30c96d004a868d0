"""Studies made: what they hold, what is refused, and what is told meanwhile."""

import os
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.store.lock import LOCK, locked
from mha_viz.errors import ArgumentError, MhaVizError, StudyError
from tests.corpus.small_studies import LINES, files_of

pytestmark = pytest.mark.usefixtures("small_shards")


def test_the_same_call_opens_a_finished_study(whole: mv.Study, bert: Any) -> None:
    before = files_of(whole.folder)
    called: list[Progress] = []
    again = mv.study(bert, LINES, whole.folder, on_progress=called.append)
    assert again.n_texts == whole.n_texts and not called
    assert files_of(whole.folder) == before


# -- what is refused, and left as it is ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model": "tiny-gpt2"}, "another model"),
        ({"source": LINES[1:]}, "another source"),
        ({"seed": 5}, "another source"),
        ({"batch_tokens": 100}, "other settings"),
    ],
)
def test_another_study_in_that_folder(
    whole: mv.Study, bert: Any, changed: dict[str, Any], told: str
) -> None:
    before = files_of(whole.folder)
    given: dict[str, Any] = {"source": LINES, "out": whole.folder, **changed}
    model = mv.load(given.pop("model")) if "model" in given else bert
    with pytest.raises(StudyError, match=told):
        mv.study(model, **given)
    assert files_of(whole.folder) == before


def test_a_folder_of_other_things(bert: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        mv.study(bert, LINES, tmp_path)
    assert files_of(tmp_path).keys() == {"thesis.tex"}
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        mv.study(bert, LINES, tmp_path / "thesis.tex")


def test_an_empty_corpus_makes_no_folder(bert: Any, tmp_path: Path) -> None:
    with pytest.raises(MhaVizError, match="no text"):
        mv.study(bert, ["", "  "], tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_texts_that_were_cut_are_told(bert: Any, tmp_path: Path, whole: mv.Study) -> None:
    texts = ["cat " * n for n in (3, bert.n_ctx - 2, bert.n_ctx + 5, 300)]
    found = mv.study(bert, texts, tmp_path / "study")
    lost = [0, 0, 7, 302 - bert.n_ctx]
    assert (
        found.sql("select n_left_out from sentences order by text_id")["n_left_out"].tolist()
        == lost
    )
    counts = found.manifest["counts"]
    assert (counts["n_truncated"], counts["n_left_out"]) == (2, sum(lost))
    assert "2 of 4" in found.cut and f" {sum(lost)} " in found.cut
    assert not whole.cut


def test_arguments(bert: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="batch_tokens"):
        mv.study(bert, LINES, tmp_path / "study", batch_tokens=0)
    with pytest.raises(StudyError, match="s3://bucket/study"):
        mv.study(bert, LINES, "s3://bucket/study")
    assert not (tmp_path / "study").exists()


def test_one_process_at_a_time(bert: Any, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with (
        locked(tmp_path / "study"),
        pytest.raises(StudyError, match=str(os.getpid())),
    ):
        mv.study(bert, LINES[:2], tmp_path / "study")


def test_a_lock_that_was_left_over_locks_nothing(bert: Any, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / LOCK).write_text("1")
    assert mv.study(bert, LINES[:2], tmp_path / "study").n_texts == 2


def test_progress_counts_up_to_all_texts(bert: Any, tmp_path: Path) -> None:
    told: list[Progress] = []
    mv.study(bert, LINES, tmp_path / "study", on_progress=told.append)
    done = [now.n_texts for now in told]
    assert done == sorted(done) and done[-1] == len(LINES)
    assert told[0].in_words() == f"0 of {len(LINES)} texts"  # before the first batch
    assert {now.n_total for now in told} == {len(LINES)}
    assert told[-1].seconds_left == 0 and told[-1].texts_per_second > 0
