"""Studies stopped at any moment and gone on with: the same to the last bit."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.store.study_file import FILE, StudyFile
from mha_viz.errors import StudyError, WriteError
from tests.corpus.random_moments import acting
from tests.corpus.small_studies import FEW, LINES, tables_of

pytestmark = pytest.mark.usefixtures("small_shards")


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
