"""A run of the random sample: which mutants the tests notice, by group.

Coverage with a context for each test says which tests run a mutant's lines. Data and results lie in
one folder: what is there already is not measured again, so a run that was interrupted goes on.
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.mutations.covering import Covering
from tests.mutations.forked_session import start_session
from tests.mutations.node_runs import run_javascript, write_values
from tests.mutations.runs import Outcome, Run, copy_tree, run_all, warm_up
from tests.mutations.sample import GROUPS, JAVASCRIPT, Sampled, StaleError

LIMIT = 240  # seconds of all tests of a mutant whose module is imported anew
HANGS = 150  # seconds after which a test counts as hanging, where the limit ends it
INTERNAL_ERROR = 3  # pytest's exit code; such a mutant is tried again with modules imported anew
MAX_KILLERS = 30  # that a row names
LIBRARIES = ("streamlit.testing.v1", "starlette.testclient")  # of the tests of pages
SELECTION = ("-m", "not browser and not extended", "-p", "no:cacheprovider", "-q")

Row = dict[str, Any]


def run_sample(
    mutants: Sequence[Sampled], root: Path, folder: Path, results: Path, jobs: int, every: bool
) -> int:
    """Run a sample against the tests of a tree, and print the rates.

    Args:
        mutants: the sample.
        root: the tree.
        folder: for coverage data.
        results: a file for a row a mutant; mutants with a row are not run.
        jobs: how many runs go on at once.
        every: run all tests of a mutant, not only those up to the first failure.
    """
    rows = read_rows(results)
    stale = [mutant for mutant in mutants if _is_stale(mutant, root)]
    left = [mutant for mutant in mutants if mutant.id not in rows and mutant not in stale]
    python = [mutant for mutant in left if mutant.file.endswith(".py")]
    script = [mutant for mutant in left if mutant.file.startswith(JAVASCRIPT)]
    if python:
        measure(root, folder)
    with tempfile.TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as name:
        place = Path(name).resolve()
        copy_tree(root, whole := place / "whole")
        if (root / "node_modules").is_dir():
            (whole / "node_modules").symlink_to((root / "node_modules").resolve())
        folders = [place / f"copy{i}" for i in range(jobs)]
        for copy in folders:
            shutil.copytree(whole, copy, symlinks=True)
        if script and shutil.which("node"):
            _javascript(script, whole, folders, results, every)
        if python:
            _python(python, root, folder, whole, folders, results, every)
    print(summary([mutant for mutant in mutants if mutant not in stale], read_rows(results)))
    if stale:
        print(f"{len(stale)} mutants are stale, for their lines have changed.")
    return 0


def _is_stale(mutant: Sampled, root: Path) -> bool:
    try:
        mutant.first_line(root)
    except StaleError:
        return True
    return False


def measure(root: Path, folder: Path) -> None:
    """Run all tests with coverage, where that has not been done."""
    if (folder / "junit.xml").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", *SELECTION, "-n", "auto", "--maxprocesses", "4"]
    command += ["--dist", "loadfile", "--cov=mha_viz", "--cov-context=test", "--cov-report="]
    command += [f"--junit-xml={folder.resolve() / 'junit.xml'}"]
    environment = os.environ | {"COVERAGE_FILE": str(folder.resolve() / ".coverage")}
    print("Which tests run which lines? That takes some twice as long as the tests.", flush=True)
    subprocess.run(command, cwd=root, env=environment, check=False)


def read_rows(path: Path) -> dict[str, Row]:
    """Read the rows of a results file, by mutant."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def summary(mutants: Sequence[Sampled], rows: dict[str, Row]) -> str:
    """Return the rates by group and the mutants that survive; equivalent ones do not count."""
    text = []
    counted = [m for m in mutants if m.id in rows and not m.equivalent]
    for group in GROUPS:
        n = [bool(rows[m.id]["killers"]) for m in counted if m.group == group]
        if n:
            text.append(f"{group}: {sum(n)} of {len(n)} noticed ({sum(n) / len(n):.0%})")
    for mutant in counted:
        row = rows[mutant.id]
        if not row["killers"]:
            text += ["", f"{mutant.name} ({mutant.file}:{mutant.line}), {row['n_tests']} tests"]
            for sign, piece in (("-", mutant.before), ("+", mutant.after)):
                text += [f"{sign} {line}" for line in piece.splitlines()]
    return "\n".join(text)


def _note(row: Row, results: Path) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    said = f"noticed by {row['killers'][0]}" if row["killers"] else "SURVIVED"
    print(f"{row['seconds']:5.1f} s  {row['id']}: {said}", flush=True)


def _row(
    mutant: Sampled, n_tests: int, killers: Sequence[str], seconds: float, *, cut: bool = False
) -> Row:
    return {
        "id": mutant.id,
        "n_tests": n_tests,
        "n_killers": len(killers),
        "killers": list(killers[:MAX_KILLERS]),
        "cut": cut,
        "seconds": round(seconds, 1),
    }


def _python(
    mutants: Sequence[Sampled],
    root: Path,
    folder: Path,
    whole: Path,
    folders: Sequence[Path],
    results: Path,
    every: bool,
) -> None:
    """Run Python mutants: in loaded functions where that can be, or in modules imported anew."""
    covering = Covering(root, folder)
    quick, slow = [], []
    for mutant in mutants:
        run = Run(covering.tests(mutant), mutant, every)
        if not run.tests:
            _note(_row(mutant, 0, (), 0), results)
        else:
            (slow if covering.runs_at_import(mutant) else quick).append(run)
    (home := whole.parent / "home").mkdir()
    warm_up(home, LIBRARIES)
    _run_loaded(quick, folders, whole.parent / "claims", results)
    rows = read_rows(results)
    for outcome in run_all(
        [*slow, *(run for run in quick if _mutant(run).id not in rows)], whole, folders, LIMIT
    ):
        _note(_of_outcome(outcome), results)


def _run_loaded(runs: Sequence[Run], folders: Sequence[Path], claims: Path, results: Path) -> None:
    """Run faults in sessions that have collected all tests, one session a folder."""
    claims.mkdir()

    def next_run() -> Run | None:
        for run in runs:
            with suppress(FileExistsError):
                (claims / _mutant(run).id).touch(exist_ok=False)
                return run
        return None

    def report(run: Run, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.code != INTERNAL_ERROR:
            _note(_of_outcome(outcome), results)

    pids = [start_session(folder, next_run, report) for folder in folders if runs]
    for pid in pids:
        os.waitpid(pid, 0)


def _mutant(run: Run) -> Sampled:
    assert isinstance(run.mutation, Sampled)
    return run.mutation


def _of_outcome(outcome: Outcome) -> Row:
    mutant = _mutant(outcome.run)
    killers = [test for test, passed in outcome.ended.items() if not passed]
    cut = outcome.code is None
    if cut and outcome.hanging is not None and outcome.hanging[1] > HANGS:
        killers.append(outcome.hanging[0])
    if outcome.code is not None and outcome.code < 0 and not killers:
        killers = [f"(signal {-outcome.code})"]
    return _row(mutant, len(outcome.ended), killers, outcome.seconds, cut=cut)


def _javascript(
    mutants: Sequence[Sampled], whole: Path, folders: Sequence[Path], results: Path, every: bool
) -> None:
    """Run JavaScript mutants, one in each folder at a time."""
    write_values(whole, sys.executable, values := whole.parent / "values.json")
    free: queue.Queue[Path] = queue.Queue()
    for folder in folders:
        free.put(folder)

    def run(mutant: Sampled) -> Row:
        begin, folder = time.monotonic(), free.get()
        try:
            killed = run_javascript(mutant, whole, folder, values, every)
        finally:
            free.put(folder)
        return _row(mutant, killed.n_tests, killed.failed, time.monotonic() - begin)

    with ThreadPoolExecutor(len(folders)) as threads:
        for future in as_completed([threads.submit(run, mutant) for mutant in mutants]):
            _note(future.result(), results)
