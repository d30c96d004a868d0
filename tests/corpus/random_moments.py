"""Random moments of a study: `python -m tests.corpus.random_moments` kills processes at some."""

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import mha_viz as mv
from mha_viz.corpus.sources import source
from mha_viz.corpus.store.study_file import StudyFile

MOMENTS = 40  # that a study of three parts has at least
SECONDS = 0.3  # that it takes at least from its first batch on
PER_SHARD = 4


def acting(seed: int, act: Callable[[], None]) -> dict[str, Callable[..., Any]]:
    """Return stand-ins for `StudyFile.insert`, its `checkpoint`, `Path.replace` and the progress.

    They act at one moment of a study, drawn by the seed: some rows, a move of the log into the
    file, a change of a name, or a batch.
    """
    left, insert, checkpoint = (
        random.Random(seed).randrange(1, MOMENTS),
        StudyFile.insert,
        StudyFile.checkpoint,
    )
    replace = Path.replace

    def counted(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            act()

    def inserting(file: StudyFile, *given: Any) -> None:
        insert(file, *given)
        counted()

    def checkpointing(file: StudyFile) -> None:
        counted()
        checkpoint(file)

    def replacing(path: Path, target: Path) -> Path:
        counted()
        return replace(path, target)

    return {
        "insert": inserting,
        "checkpoint": checkpointing,
        "replace": replacing,
        "on_progress": counted,
    }


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _study_until_killed(model: Any, lines: list[str], out: Path, seed: int) -> None:
    kill = threading.Timer(random.Random(seed).uniform(0, SECONDS), _kill)

    def on_progress(_: Any) -> None:
        if not kill.ident:  # from the first batch on
            kill.start()

    mv.study(model, lines, out, on_progress=on_progress)


def _main(texts: str, folder: str, *seeds: str) -> None:
    """A study in a process of its own for each seed, forked: a new Python takes seconds."""
    torch.set_num_threads(1)
    source.SHARD_TEXTS = PER_SHARD
    model, lines = mv.load("tiny-bert"), Path(texts).read_text().splitlines()
    for seed in seeds:
        child = os.fork()
        if child == 0:
            _study_until_killed(model, lines, Path(folder, seed), int(seed))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
