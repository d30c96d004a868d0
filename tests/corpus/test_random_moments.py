"""Twenty random moments at which a study ends, and goes on to the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.sources import source as sources
from mha_viz.errors import StudyError
from tests.corpus.random_moments import PER_SHARD, acting
from tests.corpus.small_studies import FEW, files_of

CTRL_C, KILLED = range(12), range(12, 20)  # seeds


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", PER_SHARD)


@pytest.fixture(scope="module")
def few(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a study of three shards that nothing interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
        return files_of(mv.study(bert, FEW, tmp_path_factory.mktemp("few") / "study").folder)


def goes_on(model: Any, folder: Path, expected: dict[str, str]) -> None:
    """The same call makes the same study of what is there."""
    with pytest.raises(StudyError, match=r"not finished|is no study"):
        mv.Study.load(folder)
    mv.study(model, iter(FEW), folder)
    assert files_of(folder) == expected


@pytest.mark.parametrize("seed", CTRL_C)
def test_stopped_at_a_random_moment(
    few: dict[str, str], bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Ctrl-C comes while files are written and renamed, the summaries among them."""

    def stop() -> None:
        raise KeyboardInterrupt

    moments = acting(seed, stop)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", moments["fsync"])
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
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(seeds), done.stderr
    return folder


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("seed", KILLED)
def test_killed_at_a_random_moment(few: dict[str, str], bert: Any, killed: Path, seed: int) -> None:
    goes_on(bert, killed / str(seed), few)
