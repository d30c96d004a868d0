"""Studies made, stopped at any moment and gone on with: the same to the last bit."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.run import run
from mha_viz.corpus.run.run import Progress
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.lock import LOCK, locked
from mha_viz.errors import ArgumentError, MhaVizError, StudyError, WriteError
from mha_viz.text.encoding import encode_texts
from tests.corpus.plain_study import TEXTS
from tests.corpus.random_moments import PER_SHARD
from tests.corpus.small_studies import FEW, LINES, files_of
from tests.making.comparing import near


class Stopped(Exception):
    """An error that a test raises in the middle."""


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", PER_SHARD)


@pytest.fixture(scope="module")
def whole(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    """A study that nothing interrupted, with one text that a cleaner refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
        out = tmp_path_factory.mktemp("whole") / "study"
        return mv.study(bert, LINES, out)


def test_a_study_counts_its_texts(whole: mv.Study) -> None:
    assert whole.n_texts == len(LINES)
    assert len(whole.sql("select distinct text_id from texts")) == len(LINES)
    assert set(whole.heads["n_texts"]) >= {len(LINES)}
    assert sorted(path.name for path in (whole.folder / "shards").iterdir()) == [
        f"{number:05d}" for number in range(6)
    ]
    assert not (whole.folder / LOCK).exists()


def test_its_means_are_those_of_single_reports(whole: mv.Study, bert: Any) -> None:
    tables = [mv.head_report(bert.trace(text, keep=("pattern", "z", "value"))) for text in LINES]
    heads = whole.heads
    for metric in ("entropy", "distance", "previous_token", "output_norm"):
        expected = sum(table[metric].to_numpy(float) for table in tables) / len(tables)
        ours = heads[heads.metric == metric]["mean"].to_numpy()
        assert ours == near(expected)


def test_the_same_call_opens_a_finished_study(whole: mv.Study, bert: Any) -> None:
    before = files_of(whole.folder)
    called: list[Progress] = []
    again = mv.study(bert, LINES, whole.folder, on_progress=called.append)
    assert again.n_texts == whole.n_texts and not called
    assert files_of(whole.folder) == before


# -- stopped -------------------------------------------------------------------------------------


def test_what_a_killed_process_left_is_cleared_away(
    whole: mv.Study, bert: Any, tmp_path: Path
) -> None:
    shards = tmp_path / "study/shards"
    (shards / "00001.part").mkdir(parents=True)
    (shards / "00001.part/texts.parquet").write_bytes(b"half")
    (tmp_path / "study" / LOCK).write_text("1")
    (tmp_path / "study/.sorting.part").mkdir()
    (tmp_path / "study/.heads.part").write_bytes(b"half")
    with pytest.raises(StudyError, match="other things"):
        mv.study(bert, LINES, tmp_path / "study")  # shards without a study.json are nobody's
    shards.rename(tmp_path / "shards")
    with pytest.raises(Stopped):
        mv.study(bert, LINES, tmp_path / "study", on_progress=_stop)
    shards.mkdir(exist_ok=True)
    (tmp_path / "shards/00001.part").rename(shards / "00001.part")
    (tmp_path / "study/.labels.part").write_bytes(b"half")
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def _stop(_: Progress) -> None:
    raise Stopped


SCRIPT = """
import signal, sys
# A shell that runs the tests in the background has made its children deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
import mha_viz as mv
from mha_viz.corpus.sources import source
source.SHARD_TEXTS = 4
lines = open(sys.argv[1]).read().splitlines()
def tell(now):
    print(now.n_texts, flush=True)
    sys.stdin.readline()
mv.study(mv.load("tiny-bert"), lines, sys.argv[2], on_progress=tell)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.extended) for one in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_killed_and_gone_on_with(
    whole: mv.Study, bert: Any, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    arguments = [str(tmp_path / "lines.txt"), str(tmp_path / "study")]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        while int(child.stdout.readline() or "99") < 8:
            print(file=child.stdin, flush=True)  # go on
        child.send_signal(number)
        child.wait()
    assert child.returncode != 0
    assert 1 <= len(list((tmp_path / "study/shards").glob("*[0-9]"))) < 6
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_part_is_written_while_the_next_is_measured(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, write = run.measure_batches, storage.write_shard
    begun, parts, written = threading.Event(), list[str](), list[int]()

    def measuring(*given: Any, **named: Any) -> Any:
        parts.append("begun")
        if len(parts) == 2:
            begun.set()
        return measure(*given, **named)

    def writing(folder: Path, number: int, shard: Any) -> Any:
        written.append(number)
        assert number or begun.wait(60), "the second part waited for the first"
        return write(folder, number, shard)

    monkeypatch.setattr(run, "measure_batches", measuring)
    monkeypatch.setattr(storage, "write_shard", writing)
    mv.study(bert, LINES, tmp_path / "study")
    assert written == list(range(len(parts))) and len(written) > 1
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_lost_part_is_made_anew(whole: mv.Study, bert: Any, tmp_path: Path) -> None:
    mv.study(bert, LINES, tmp_path / "study")
    for path in (tmp_path / "study/shards/00002").iterdir():
        path.unlink()
    (tmp_path / "study/shards/00002").rmdir()
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_full_disk_leaves_what_is_complete(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = pq.write_table, 0

    def full(table: Any, file: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 12:  # in the second shard
            file.write(b"PAR1 half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, file, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(WriteError, match=r"the disk is full.*the same command goes on"):
            mv.study(bert, LINES, tmp_path / "study")
    assert [path.name for path in (tmp_path / "study/shards").iterdir()] == ["00000"]
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_full_disk_at_the_summaries(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("mha_viz.corpus.run.summary.write_table", full)
        with pytest.raises(WriteError, match="the disk is full"):
            mv.study(bert, LINES, tmp_path / "study")
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_folder_that_is_deleted_meanwhile_does_not_come_back(bert: Any, tmp_path: Path) -> None:
    """A server deletes the folder of its studies when it ends."""

    def delete(_: Progress) -> None:
        shutil.rmtree(tmp_path / "study", ignore_errors=True)  # and again, until it is noticed

    with pytest.raises(WriteError, match=r"study cannot be written: No such file or directory\."):
        mv.study(bert, LINES, tmp_path / "study", on_progress=delete)
    assert not (tmp_path / "study").exists()


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
    with pytest.raises(StudyError, match=r"other things \(thesis\.tex\)"):
        mv.study(bert, LINES, tmp_path)
    assert files_of(tmp_path).keys() == {"thesis.tex"}
    with pytest.raises(StudyError, match="is a file"):
        mv.study(bert, LINES, tmp_path / "thesis.tex")
    with pytest.raises(StudyError, match=r"none of \* \? \["):
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
    assert f"2 of 4 texts; about {sum(lost)} tokens were left out" in found.cut
    assert not whole.cut


def test_arguments(bert: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="batch_tokens"):
        mv.study(bert, LINES, tmp_path / "study", batch_tokens=0)
    with pytest.raises(StudyError, match="s3://bucket/study is an address, which takes a cluster"):
        mv.study(bert, LINES, "s3://bucket/study")
    assert not (tmp_path / "study").exists()


def test_one_process_at_a_time(bert: Any, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with (
        locked(tmp_path / "study"),
        pytest.raises(StudyError, match=rf"number {os.getpid()}\) is writing"),
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


def test_its_description_says_what_it_is_of(whole: mv.Study) -> None:
    manifest = json.loads((whole.folder / "study.json").read_text())
    assert manifest["finished"] and manifest["model"]["name"] == "tiny-bert"
    assert len(manifest["model"]["weights_sha256"]) == 64
    assert manifest["settings"]["batch_tokens"] == 8192
    assert {"torch", "duckdb", "mha_viz"} <= manifest["versions"].keys()
    assert manifest["counts"]["n_padded"] >= manifest["counts"]["n_tokens"] > 0
