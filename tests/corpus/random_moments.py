"""Random moments of a study: `python -m tests.corpus.random_moments` kills processes at some."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import mha_viz as mv
from mha_viz.corpus.sources import source

MOMENTS = 60  # that a study of three parts has at least
PER_SHARD = 4


def acting(seed: int, act: Callable[[], None]) -> dict[str, Callable[..., Any]]:
    """What takes the place of `os.fsync`, `Path.replace` and the progress of a study, so that one
    of its moments, drawn by the seed, is acted at: a write, a change of a name, or a batch."""
    left, sync, replace = random.Random(seed).randrange(1, MOMENTS), os.fsync, Path.replace

    def counted(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            act()

    def syncing(number: int) -> None:
        counted()
        sync(number)

    def replacing(path: Path, target: Path) -> Path:
        counted()
        return replace(path, target)

    return {"fsync": syncing, "replace": replacing, "on_progress": counted}


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _main(texts: str, folder: str, *seeds: str) -> None:
    """A study in a process of its own for each seed, forked: a new Python takes seconds."""
    torch.set_num_threads(1)
    source.SHARD_TEXTS = PER_SHARD
    model, lines = mv.load("tiny-bert"), Path(texts).read_text().splitlines()
    for seed in seeds:
        child = os.fork()
        if child == 0:
            moments = acting(int(seed), _kill)
            os.fsync, Path.replace = moments["fsync"], moments["replace"]  # type: ignore
            mv.study(model, lines, Path(folder, seed), on_progress=moments["on_progress"])
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
