"""A sweep over the text families of transformers: `python -m tests.families`.

Each family is built tiny and random, in a process that may die and has a time limit. Its attention
weights by this library, wrapped and loaded, are compared with those of its own eager attention. The
result is a table, and the page docs/families.md. The exit code is 1 where a family fails.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.families.page import counts, page
from tests.families.tiny import text_families
from tests.families.trial import Result, try_family

PAGE = Path("docs/families.md")
RESULTS = Path("build/families.json")
LIMIT_SECONDS = 60.0  # most families take three seconds

Try = Callable[[str], Result]


class Worker:
    """A process that tries one family after the other; one that died or hangs is replaced."""

    def __init__(self, trial: Try) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, trial), daemon=True)
        self.process.start()
        theirs.close()
        self.family, self.end = "", 0.0

    def begin(self, family: str, limit: float) -> None:
        self.family, self.end = family, time.monotonic() + limit
        self.pipe.send(family)

    def result(self) -> Result:
        """Return what it sent, or "fails" where it has not; then it is of no more use."""
        try:
            if self.pipe.poll():
                result: Result = self.pipe.recv()
                return result
            reason = "It took too long."
        except (EOFError, OSError):
            reason = "Its process died."
        self.stop()
        return Result(self.family, "fails", reason)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _work(pipe: Any, trial: Try) -> None:
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:  # transformers warns of sizes that no one trains
        os.dup2(nowhere.fileno(), 2)
        while True:
            pipe.send(trial(pipe.recv()))


def sweep(
    families: Sequence[str], jobs: int = 2, limit: float = LIMIT_SECONDS, trial: Try = try_family
) -> Iterator[Result]:
    """Try families in some processes, and yield each result when it is there."""
    left = list(reversed(families))
    workers = [Worker(trial) for _ in families[:jobs]]
    for worker in workers:
        worker.begin(left.pop(), limit)
    while workers:
        ready = wait([worker.pipe for worker in workers], timeout=1)
        for worker in list(workers):
            if worker.pipe not in ready and time.monotonic() < worker.end:
                continue
            yield worker.result()
            workers.remove(worker)
            if left:
                again = worker if worker.process.is_alive() else Worker(trial)
                workers.append(again)
                again.begin(left.pop(), limit)
            else:
                worker.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.families", description=__doc__)
    parser.add_argument("family", nargs="*", help="only these; all if not given")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds for a family")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON with all results")
    parser.add_argument("--resume", action="store_true", help="keep the results of a broken run")
    parser.add_argument("--page", type=Path, default=PAGE, help="page of the documentation")
    given = parser.parse_args(arguments)
    families = given.family or text_families()
    done: dict[str, Result] = {}
    if given.resume and given.results.is_file():
        stored = json.loads(given.results.read_text("utf-8"))
        done = {result["family"]: Result(**result) for result in stored}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    todo = [name for name in families if name not in done]
    for result in sweep(todo, given.jobs, given.limit):
        print(f"{result.family:28} {result.outcome:18} {result.reason[:150]}", flush=True)
        done[result.family] = result
        rows = [done[name].as_dict() for name in sorted(done)]
        given.results.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    results = [done[name] for name in sorted(done)]
    print(counts(results))
    if not given.family:
        given.page.write_text(page(results, transformers.__version__), "utf-8")
    return int(any(result.outcome == "fails" for result in results))


if __name__ == "__main__":
    sys.exit(main())
