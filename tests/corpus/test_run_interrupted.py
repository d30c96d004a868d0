"""Studies stopped at any moment and gone on with: the same to the last bit."""

import errno
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

import mha_viz as mv
from mha_viz.corpus.run import run
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.statistics import totals
from mha_viz.corpus.store import blocks, storage
from mha_viz.corpus.store.integrity import LOCK
from mha_viz.errors import StudyError, WriteError
from tests.corpus.small_studies import LINES, Stopped, files_of
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("small_shards")


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


@pytest.mark.extended
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
        # A part is written while the next one is measured, so it may take longer than its texts.
        shards = tmp_path / "study/shards"
        wait_for(lambda: list(shards.glob("*[0-9]")), "a part of the study")
        child.send_signal(number)
        child.wait()
    assert child.returncode != 0
    assert 1 <= len(list(shards.glob("*[0-9]"))) < 6
    mv.study(bert, LINES, tmp_path / "study")
    assert files_of(tmp_path / "study") == files_of(whole.folder)


def test_a_part_is_written_while_the_next_is_measured(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, write = run.measure_batches, totals.write_shard
    begun, parts, written = threading.Event(), list[str](), list[int]()

    def measuring(*given: Any, **named: Any) -> Any:
        parts.append("begun")
        if len(parts) == 2:
            begun.set()
        return measure(*given, **named)

    def writing(folder: Path, number: int, shard: Any, **more: Any) -> Any:
        written.append(number)
        assert number or begun.wait(60), "the second part waited for the first"
        return write(folder, number, shard, **more)

    monkeypatch.setattr(run, "measure_batches", measuring)
    monkeypatch.setattr(totals, "write_shard", writing)
    mv.study(bert, LINES, tmp_path / "study")
    assert written == list(range(len(parts))) and len(written) > 1
    assert files_of(tmp_path / "study") == files_of(whole.folder)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put two shards into a part."""
    monkeypatch.setattr(blocks, "PART_BYTES", 50_000)


@pytest.mark.usefixtures("in_parts")
def test_a_lost_part_is_made_anew(bert: Any, tmp_path: Path) -> None:
    """Its shards alone are measured; the others, and all sums, stay as they are."""
    study = mv.study(bert, LINES, tmp_path / "study")
    before, parts = files_of(study.folder), study.manifest["parts"]
    assert [part["first"] for part in parts] == [0, 2, 4] and len(study.sql("FROM texts"))
    shutil.rmtree(study.folder / "parts/00002")
    with pytest.raises(StudyError, match="lacks its part 00002"):
        mv.Study.load(study.folder)
    told: list[Progress] = []
    mv.study(bert, LINES, study.folder, on_progress=told.append)
    assert max(now.n_texts for now in told) == 8
    assert files_of(study.folder) == before


@pytest.mark.usefixtures("in_parts")
def test_a_part_that_cannot_be_made_as_it_was_is_refused(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = mv.study(bert, LINES, tmp_path / "study")
    shutil.rmtree(study.folder / "parts/00004")
    monkeypatch.setattr(storage, "ZSTD_LEVEL", 1)
    with pytest.raises(StudyError, match=r"parts/00004 of .* cannot be made anew as it was"):
        mv.study(bert, LINES, study.folder)
    assert not (study.folder / "parts/00004").exists()
    monkeypatch.undo()
    assert mv.study(bert, LINES, study.folder).n_texts == len(LINES)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_stopped_while_parts_are_merged_and_shards_deleted(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """Before its parts are listed it is no finished study, and afterwards it is."""
    folder, listed = tmp_path / "study", left == 3

    def stopping(*given: Any) -> Any:
        if listed:
            shutil.rmtree(folder / "shards/00003")
        elif left:
            blocks.merge(folder, range(4))
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(run, "remove_shards" if listed else "merge_shards", stopping)
        with pytest.raises(Stopped):
            mv.study(bert, LINES, folder)
    assert storage.read_manifest(folder)["finished"] == listed
    if listed:
        assert mv.Study.load(folder).sql("FROM texts").equals(whole.sql("FROM texts"))
    mv.study(bert, LINES, folder)
    assert files_of(folder) == files_of(whole.folder)


def test_a_full_disk_leaves_what_is_complete(
    whole: mv.Study, bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = pq.ParquetWriter.write_table, 0

    def full(writer: Any, table: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 16:  # in the second shard
            raise OSError(errno.ENOSPC, "No space left on device")
        write(writer, table)

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
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
