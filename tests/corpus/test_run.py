"""Studies made: what they hold, what is refused, and what is told meanwhile."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run import progress, study_builder
from mha_viz.corpus.run.progress import Progress, space_note
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import study_file
from mha_viz.corpus.store.lock import LOCK, locked
from mha_viz.corpus.store.study_file import FILE, StudyFile
from mha_viz.errors import ArgumentError, MhaVizError, StudyError, WriteError
from tests.corpus.random_moments import acting
from tests.corpus.small_studies import FEW, LINES, files_of, tables_of

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


def test_folders_texts_and_arguments_that_make_no_study(bert: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        mv.study(bert, LINES, tmp_path)
    assert files_of(tmp_path).keys() == {"thesis.tex"}
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        mv.study(bert, LINES, tmp_path / "thesis.tex")
    with pytest.raises(MhaVizError, match="no text"):
        mv.study(bert, ["", "  "], tmp_path / "study")
    assert not (tmp_path / "study").exists()
    with pytest.raises(ArgumentError, match="batch_tokens"):
        mv.study(bert, LINES, tmp_path / "study", batch_tokens=0)
    with pytest.raises(StudyError, match="s3://bucket/study"):
        mv.study(bert, LINES, "s3://bucket/study")
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


PER_SHARD, N_TEXTS = 13, 91
TEXTS = [
    f"The cat of house {100 + i} sat on the mat, and {i % 7} dogs slept." for i in range(N_TEXTS)
]


def test_space_note_estimates_the_number_of_texts_from_the_size_of_the_source(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
    monkeypatch.setattr(study_builder, "SHARDS_AT_ONCE", 3)
    monkeypatch.setattr(study_file, "SHARDS_AT_ONCE", 3)
    monkeypatch.setattr(study_builder, "_MAX_COUNTED_BYTES", 0)  # nobody counts them
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    told: list[Progress] = []
    mv.study(bert, tmp_path / "texts.txt", tmp_path / "study", on_progress=told.append)
    assert space_note(told[0]) is None and told[-1].n_total is None
    assert space_note(told[-1]) == ""
    expected = told[-1].n_expected
    assert expected == pytest.approx(N_TEXTS, rel=0.02)

    monkeypatch.setattr(progress, "MANY_TEXTS", N_TEXTS - 9)
    note = space_note(told[-1])
    assert note and re.search(rf"about {expected:,.0f} texts", note)


def test_a_folder_that_is_deleted_meanwhile_does_not_come_back(bert: Any, tmp_path: Path) -> None:
    """A server deletes the folder of its studies when it ends."""

    def delete(_: Progress) -> None:
        shutil.rmtree(tmp_path / "study", ignore_errors=True)  # and again, until it is noticed

    with pytest.raises(WriteError, match="No such file or directory"):
        mv.study(bert, LINES, tmp_path / "study", on_progress=delete)
    assert not (tmp_path / "study").exists()


CTRL_C, KILLED = range(12), range(12, 20)  # seeds
DAILY = 2  # of them


@pytest.fixture(scope="module")
def few(bert: Any, small_shards: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the tables of a study of three shards that nothing interrupted."""
    return tables_of(mv.study(bert, FEW, tmp_path_factory.mktemp("few") / "study").folder)


def goes_on(model: Any, folder: Path, expected: dict[str, str]) -> None:
    """The same call makes the same study of what is there."""
    if not (folder / FILE).exists():  # it may have ended just before
        with pytest.raises(StudyError, match=r"not finished|is no study"):
            mv.Study.load(folder)
    mv.study(model, iter(FEW), folder)
    assert tables_of(folder) == expected


@pytest.mark.parametrize(
    "seed",
    [
        *CTRL_C[:DAILY],
        *(pytest.param(seed, marks=pytest.mark.extended) for seed in CTRL_C[DAILY:]),
    ],
)
def test_stopped_at_a_random_moment(
    few: dict[str, str], bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Ctrl-C comes while rows are written and the file gets its name, summaries among them."""

    def stop() -> None:
        raise KeyboardInterrupt

    moments = acting(seed, stop)
    with monkeypatch.context() as patch:
        patch.setattr(StudyFile, "insert", moments["insert"])
        patch.setattr(StudyFile, "checkpoint", moments["checkpoint"])
        patch.setattr(Path, "replace", moments["replace"])
        with pytest.raises(KeyboardInterrupt):
            mv.study(bert, FEW, tmp_path / "study", on_progress=moments["on_progress"])
    goes_on(bert, tmp_path / "study", few)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies whose processes killed themselves with SIGKILL, each in a folder of its seed."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "lines.txt").write_text("\n".join(FEW))
    seeds = [str(seed) for seed in KILLED]
    command = [sys.executable, "-m", "tests.corpus.random_moments"]
    done = subprocess.run(
        [*command, str(folder / "lines.txt"), str(folder), *seeds],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    ended = done.stdout.split()
    assert ended.count(str(-signal.SIGKILL)) > len(seeds) // 2, done.stderr
    return folder


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("seed", KILLED)
def test_killed_at_a_random_moment(few: dict[str, str], bert: Any, killed: Path, seed: int) -> None:
    goes_on(bert, killed / str(seed), few)
