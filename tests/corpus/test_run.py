"""Studies made: what they hold, what is refused, and what is told meanwhile."""

import os
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.store.integrity import LOCK, locked
from mha_viz.errors import ArgumentError, MhaVizError, StudyError
from mha_viz.text.encoding import encode_texts
from tests.corpus.random_moments import PER_SHARD
from tests.corpus.small_studies import FEW, LINES, TEXTS, Stopped, files_of
from tests.making.comparing import near

pytestmark = pytest.mark.usefixtures("small_shards")


def test_a_study_counts_its_texts(whole: mv.Study) -> None:
    assert whole.n_texts == len(LINES)
    assert len(whole.sql("select distinct text_id from texts")) == len(LINES)
    assert set(whole.heads["n_texts"]) >= {len(LINES)}
    assert [path.name for path in (whole.folder / "parts").iterdir()] == ["00000"]
    assert not (whole.folder / "shards").exists() and not (whole.folder / LOCK).exists()


def test_heads_of_several_shards_are_those_of_single_reports(whole: mv.Study, bert: Any) -> None:
    tables = [mv.head_report(bert.trace(text, keep=("pattern", "z", "value"))) for text in LINES]
    every = pd.concat(tables).groupby(["layer", "head"])
    for metric in ("entropy", "distance", "previous_token", "duplicate_token", "output_norm"):
        heads = whole.heads[whole.heads.metric == metric]
        assert heads["n_texts"].tolist() == every[metric].count().tolist()
        assert heads["mean"].to_numpy() == near(every[metric].mean().to_numpy())
        assert heads["std"].to_numpy() == near(every[metric].std().to_numpy())


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
    with pytest.raises(StudyError, match=r"\* \? \["):
        mv.study(bert, LINES, tmp_path / "a*b")


def test_an_empty_corpus_makes_no_folder(bert: Any, tmp_path: Path) -> None:
    with pytest.raises(MhaVizError, match="no text"):
        mv.study(bert, ["", "  "], tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_what_was_skipped_is_told(bert: Any, tmp_path: Path) -> None:
    found = mv.study(bert, [*TEXTS[:2], " ", "It slept."], tmp_path / "study")
    assert found.n_texts == 3 and found.manifest["counts"]["n_skipped"] == 1
    assert len(found.manifest["skipped"]) == 1


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


def test_what_reads_ahead_ends_with_the_study_and_skips_what_is_done(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(now: Progress) -> None:
        running.append(any(thread.name.startswith("texts") for thread in threading.enumerate()))
        if now.n_texts == 2 * PER_SHARD:
            raise Stopped

    def encode(reader: Any, text: str) -> Any:
        encoded.append(text)
        return encode_texts(reader, text)

    running: list[bool] = []
    with pytest.raises(Stopped):
        mv.study(bert, FEW, tmp_path / "study", on_progress=stop)
    assert any(running)
    assert not any(thread.name.startswith("texts") for thread in threading.enumerate())
    encoded: list[str] = []
    monkeypatch.setattr("mha_viz.corpus.measure.batches.encode_texts", encode)
    done = len(list((tmp_path / "study/shards").glob("*[0-9]")))
    mv.study(bert, FEW, tmp_path / "study")
    assert done and sorted(encoded) == sorted(FEW[done * PER_SHARD :])


def test_progress_counts_up_to_all_texts(bert: Any, tmp_path: Path) -> None:
    told: list[Progress] = []
    mv.study(bert, LINES, tmp_path / "study", on_progress=told.append)
    done = [now.n_texts for now in told]
    assert done == sorted(done) and done[-1] == len(LINES)
    assert told[0].in_words() == f"0 of {len(LINES)} texts"  # before the first batch
    assert {now.n_total for now in told} == {len(LINES)}
    assert told[-1].seconds_left == 0 and told[-1].texts_per_second > 0


def test_it_goes_on_in_as_many_threads_as_it_was_begun_with(bert: Any, tmp_path: Path) -> None:
    """With others the last digits of some sums would be others."""
    seen: list[int] = []

    def stop(_: Progress) -> None:
        seen.append(torch.get_num_threads())
        raise Stopped

    for threads in (3, 1):
        torch.set_num_threads(threads)
        try:
            with pytest.raises(Stopped):
                mv.study(bert, LINES, tmp_path / "study", on_progress=stop)
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(1)
    assert seen == [3, 3]
