"""A check of the tests: `python -m tests.mutations` names the faults that no test notices.

Each fault of the lists is put into a copy of the project, and the tests that are named beside it
are run there. The project itself is not touched. The exit code is 0 where every fault is noticed, 1
where one is not, and 2 where the check cannot tell.
"""

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.listing import LISTS, ListError, Mutation, read_lists
from tests.mutations.runs import Outcome, Run, copy_tree, run_all, warm_up
from tests.mutations.sample import SAMPLE, read_sample
from tests.mutations.sampled import run_sample

FOLDER = Path("build/mutations")
LIMIT = 300  # seconds; the longest run takes some ten


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    root = Path.cwd()
    if given.sample:
        results = given.folder / f"{given.sample.stem}_results.jsonl"
        mutants = [m for m in read_sample(given.sample) if given.k.lower() in f"{m.name} {m.file}"]
        return run_sample(mutants, root, given.folder, results, given.jobs, given.every)
    try:
        every = read_lists(given.list or LISTS)
        for one in every:
            one.mutated(root)
    except ListError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [one for one in every if given.k.lower() in f"{one.name} {one.file}".lower()]
    if not chosen or not hasattr(os, "fork"):
        print("No mutation has that word." if not chosen else "The check needs os.fork.")
        return 2
    with tempfile.TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as name:
        place = Path(name).resolve()
        copy_tree(root, whole := place / "whole")
        folders = [place / f"copy{i}" for i in range(max(1, min(given.jobs, len(chosen))))]
        for folder in folders:
            shutil.copytree(whole, folder)
        (home := place / "home").mkdir()
        warm_up(home)
        if not _pass_unmutated(chosen, whole, folders):
            return 2
        return _try(chosen, whole, folders)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("-k", metavar="WORD", default="", help="mutations with it in name or file")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--list", type=Path, action="append", help="TOML files other than ours")
    parser.add_argument(
        "--sample",
        type=Path,
        nargs="?",
        const=SAMPLE,
        help="the random sample (or another file of that kind) and not the lists",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="data and results of a sample")
    parser.add_argument("--every", action="store_true", help="with --sample: all tests that notice")
    return parser


def _pass_unmutated(chosen: Sequence[Mutation], whole: Path, folders: Sequence[Path]) -> bool:
    """Run all tests without any mutation, and return whether they pass."""
    begin = time.monotonic()
    tests = sorted({test for one in chosen for test in one.tests})
    parts = [tests[i :: len(folders)] for i in range(len(folders))]
    runs = [Run(tuple(part)) for part in parts if part]
    failed = [one for one in run_all(runs, whole, folders, math.inf) if one.code != 0]
    for one in failed:
        print(f"Without any mutation the tests do not pass:\n{one.output}", file=sys.stderr)
    if not failed:
        print(f"Unmutated, the tests pass ({time.monotonic() - begin:.0f} s).", flush=True)
    return not failed


def _try(chosen: Sequence[Mutation], whole: Path, folders: Sequence[Path]) -> int:
    begin = time.monotonic()
    survivors, unclear = [], []
    for outcome in run_all([Run(one.tests, one) for one in chosen], whole, folders, LIMIT):
        if outcome.noticed:
            said = f"noticed by {outcome.by}"
        elif outcome.survived:
            said = "SURVIVED"
            survivors.append(outcome)
        else:
            said = f"UNCLEAR: pytest ended with {outcome.code}, and no test passed or failed"
            unclear.append(outcome)
        assert outcome.run.mutation is not None  # as made above
        print(f"{outcome.seconds:5.1f} s  {outcome.run.mutation.name}: {said}", flush=True)
    for outcome in survivors:
        print(f"\nNo test noticed this:\n{_shown(outcome)}")
    for outcome in unclear:
        print(f"\nThe tests could not be run with this:\n{_shown(outcome)}\n{outcome.output}")
    n = len(chosen) - len(survivors) - len(unclear)
    print(f"{n} of {len(chosen)} mutations noticed in {time.monotonic() - begin:.0f} s.")
    return 2 if unclear else 1 if survivors else 0


def _shown(outcome: Outcome) -> str:
    mutation = outcome.run.mutation
    assert mutation is not None  # of the runs that are shown
    lines = [f"{mutation.name} ({mutation.file})"]
    for sign, piece in (("-", mutation.before), ("+", mutation.after)):
        lines += [f"{sign} {line}" for line in piece.splitlines()]
    return "\n".join([*lines, *(f"  {test}" for test in mutation.tests)])


if __name__ == "__main__":
    sys.exit(main())
