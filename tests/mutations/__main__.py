"""A check of the tests: `python -m tests.mutations` names the faults that no test notices.

Each fault of the lists, or of a random sample, is put into a copy of the project, and the tests
that are named beside it are run there; for a drawn fault without any, all tests of its room. The
project itself is not touched. The exit code is 0 where every listed fault is noticed, 1 where one
is not, and 2 where the check cannot tell. Of drawn faults the rates are printed.
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.mutants import (
    GROUPS,
    LISTS,
    SAMPLE,
    Mutant,
    Row,
    StaleError,
    function_of,
    is_defined,
    read_lists,
    read_rows,
    read_sample,
)
from tests.mutations.runs import Run, copy_tree, run_all, warm_up

LIMIT = 300  # seconds; the longest run of named tests takes some ten


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    root = Path.cwd()
    try:
        mutants = read_sample(options.sample) if options.sample else read_lists(options.list)
        present = [mutant for mutant in mutants if not _is_stale(mutant, root)]
    except StaleError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [m for m in present if options.k.lower() in f"{m.name} {m.file}".lower()]
    if not chosen or not hasattr(os, "fork"):
        print("No mutation has that word." if not chosen else "The check needs os.fork.")
        return 2
    with tempfile.TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as name:
        place = Path(name).resolve()
        copy_tree(root, whole := place / "whole")
        folders = [place / f"copy{i}" for i in range(max(1, min(options.jobs, len(chosen))))]
        for folder in folders:
            shutil.copytree(whole, folder, symlinks=True)
        (home := place / "home").mkdir()
        warm_up(home)
        code = _try(chosen, whole, folders, options)
    if len(present) < len(mutants):
        print(f"{len(mutants) - len(present)} drawn mutants are stale: their lines have changed.")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("-k", metavar="WORD", default="", help="mutations with it in name or file")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--list", type=Path, nargs="+", default=LISTS, help="other TOML files")
    parser.add_argument(
        "--sample",
        type=Path,
        nargs="?",
        const=SAMPLE,
        help="the random sample (or another file of that kind) and not the lists",
    )
    parser.add_argument("--room", action="store_true", help="run all tests of each mutant's room")
    parser.add_argument("--every", action="store_true", help="find all tests that notice")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a mutant")
    parser.add_argument(
        "--results", type=Path, help="a file for a row a mutant; those with a row are not run again"
    )
    return parser


def _is_stale(mutant: Mutant, root: Path) -> bool:
    """Return whether a drawn mutant's lines are gone.

    Raises:
        StaleError: those of a listed one are.
    """
    try:
        mutant.mutated(root)
    except StaleError:
        if not mutant.line:
            raise
        return True
    return False


def _try(
    chosen: Sequence[Mutant], whole: Path, folders: Sequence[Path], options: argparse.Namespace
) -> int:
    """Run the mutants that have no row yet, print how each ended, and return the exit code."""
    begin, is_clear = time.monotonic(), True
    rows = read_rows(options.results) if options.results else {}
    runs = []
    for mutant in chosen:
        if mutant.name not in rows:
            tests, is_room = mutant.tests_in(whole, whole_room=options.room)
            runs.append(Run(tests, mutant, is_room, options.every))
    for outcome in run_all(runs, whole, folders, options.limit):
        mutant = outcome.run.mutant
        assert mutant is not None  # as made above
        if outcome.killers or outcome.survived:
            rows[mutant.name] = row = {"id": mutant.name, "killers": outcome.killers}
            _store(row, options.results)
            ending = f"noticed by {outcome.killers[0]}" if outcome.killers else "SURVIVED"
        else:
            is_clear = False
            ending = f"UNCLEAR, no test passed or failed\n{outcome.output}"
        print(f"{outcome.seconds:5.1f} s  {mutant.name}: {ending}", flush=True)
    print(f"\n{summary(chosen, rows)}\n{time.monotonic() - begin:.0f} s")
    if not _pass_unmutated(rows, whole, folders) or not is_clear:
        return 2
    return int(any(not mutant.line and not rows[mutant.name]["killers"] for mutant in chosen))


def _store(row: Row, results: Path | None) -> None:
    if results is not None:
        results.parent.mkdir(parents=True, exist_ok=True)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def summary(mutants: Sequence[Mutant], rows: dict[str, Row]) -> str:
    """Return the mutants that survive, and the rates by group; equivalent ones do not count."""
    text = []
    counted = [m for m in mutants if m.name in rows and not m.equivalent]
    for mutant in counted:
        if not rows[mutant.name]["killers"]:
            text.append(f"No test noticed {mutant.name} ({mutant.file}):")
            for sign, piece in (("-", mutant.before), ("+", mutant.after)):
                text += [f"{sign} {line}" for line in piece.splitlines()]
    for group in GROUPS:
        killed = [bool(rows[mutant.name]["killers"]) for mutant in counted if mutant.group == group]
        if killed:
            rate = f"{sum(killed) / len(killed):.0%}"
            text.append(f"{group}: {sum(killed)} of {len(killed)} noticed ({rate})")
    return "\n".join(text)


def _pass_unmutated(rows: dict[str, Row], whole: Path, folders: Sequence[Path]) -> bool:
    """Run the tests that noticed a fault without any, and return whether they pass."""
    killers = {function_of(row["killers"][0]) for row in rows.values() if row["killers"]}
    tests = sorted(test for test in killers if is_defined(test, whole))
    parts = [tests[i :: len(folders)] for i in range(len(folders))]
    runs = [Run(tuple(part)) for part in parts if part]
    failed = [outcome for outcome in run_all(runs, whole, folders, math.inf) if outcome.code != 0]
    for outcome in failed:
        print(f"Without any mutation the tests do not pass:\n{outcome.output}", file=sys.stderr)
    return not failed


if __name__ == "__main__":
    sys.exit(main())
