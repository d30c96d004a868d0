"""Runs of pytest in forks of one process that has imported the large libraries already.

The tests of a study begin after 1.5 s of the processor in a fork, and 6 s in a process of its own.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutations.listing import Mutation
from tests.mutations.sample import Sampled

OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0")
TEST_LIMIT = 30  # seconds of the processor that a test may take where a run goes on
# Nothing of mha_viz: pytest has to be the first to import it, so that shapes are checked.
LIBRARIES = (
    "pytest",
    "torch",
    "transformers.modeling_utils",
    "transformers.masking_utils",
    "pandas",
    "duckdb",
    "pyarrow.parquet",
    "pyarrow.dataset",
    "plotly.graph_objects",
    "scipy.sparse.csgraph",
    "hypothesis",
    "beartype",
)


@dataclass(frozen=True)
class Run:
    """Some tests, with or without a fault in the code.

    Args:
        tests: files or node ids.
        mutation: the fault.
        every: go on after a failure.
    """

    tests: tuple[str, ...]
    mutation: Mutation | Sampled | None = None
    every: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        run: what was run.
        code: pytest's exit code, or minus the number of a signal; None: it took too long.
        seconds: how long it took.
        output: what it wrote.
        ended: node ids of the tests that ended, and whether each passed.
        hanging: the test that was running at the end, and for how many seconds.
    """

    run: Run
    code: int | None
    seconds: float
    output: str
    ended: dict[str, bool]
    hanging: tuple[str, float] | None = None

    @property
    def noticed(self) -> bool:
        """Return whether a test failed or did not end."""
        return self.code is None or self.code == 1

    @property
    def survived(self) -> bool:
        """Return whether all tests passed; skipped tests do not count."""
        return self.code == 0 and re.search(r"^\d+ passed\b", self.output, re.MULTILINE) is not None

    @property
    def by(self) -> str:
        """Return the test that failed."""
        if self.code is None:
            return "the time limit"
        return next((test for test, passed in self.ended.items() if not passed), "?")


def warm_up(home: Path, more: Sequence[str] = ()) -> None:
    """Import the large libraries, in the surroundings that tests/conftest.py asks for."""
    os.environ |= {
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(home),  # a fork ends without the steps that delete its temporary folders
    }
    tempfile.tempdir = None  # it is read from TMPDIR again
    for name in (*LIBRARIES, *more):
        import_module(name)


def copy_tree(root: Path, folder: Path) -> None:
    """Copy all files that git tracks or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def run_all(
    runs: Sequence[Run], whole: Path, folders: Sequence[Path], limit: float
) -> Iterator[Outcome]:
    """Run tests, one run in each folder at a time.

    Args:
        runs: what to run.
        whole: the tree that the folders are copies of; nothing is run in it.
        folders: as many copies as runs may go on at once; they are left as they were.
        limit: seconds after which a run is killed.

    Returns:
        Outcomes, in the order in which the runs end.
    """
    left, free = deque(enumerate(runs, 1)), list(folders)
    running: dict[int, tuple[Run, Path, float]] = {}
    try:
        while left or running:
            while left and free:
                folder = free.pop()
                number, run = left.popleft()
                if run.mutation is not None:
                    _write(run.mutation, whole, folder, number)
                running[_fork(folder, run)] = run, folder, time.monotonic()
            time.sleep(0.02)
            for pid, (run, folder, begin) in list(running.items()):
                seconds = time.monotonic() - begin
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and seconds < limit:
                    continue
                del running[pid]
                end_process(pid, reap=not ended)
                if run.mutation is not None:
                    shutil.copy2(whole / run.mutation.file, folder / run.mutation.file)
                code = os.waitstatus_to_exitcode(status) if ended else None
                output = _output(folder).read_text("utf-8", "replace")
                yield Outcome(run, code, seconds, output, *read_notes(_notes(folder)))
                free.append(folder)
    finally:
        for pid in running:
            end_process(pid, reap=True)


def _write(mutation: Mutation | Sampled, whole: Path, folder: Path, number: int) -> None:
    path = folder / mutation.file
    path.write_text(mutation.mutated(whole), "utf-8")
    # Python takes compiled code for that of a file of the same size and time: no two have one time.
    os.utime(path, (number, number))


def _fork(folder: Path, run: Run) -> int:
    """Start a run in a process group of its own, and return its number."""
    _notes(folder).unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        with suppress(OSError):  # it has done so itself
            os.setpgid(pid, pid)
        return pid
    code = 3  # pytest's own for what should not happen
    try:
        os.setpgid(0, 0)
        with open(os.devnull) as nothing, _output(folder).open("w") as output:
            for file, number in ((nothing, 0), (output, 1), (output, 2)):
                os.dup2(file.fileno(), number)
        here = ("", os.getcwd())
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if path not in here)]
        sys.dont_write_bytecode = False  # the folder is ours
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        notes = Notes(_notes(folder))
        notes.cpu_limit = run.every
        options = [*OPTIONS, *(() if run.every else ("-x",)), *run.tests]
        code = int(import_module("pytest").main(options, plugins=[notes]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def end_process(pid: int, *, reap: bool) -> None:
    """Kill a run and the processes that its tests have started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if reap:
        os.waitpid(pid, 0)


class Notes:
    """A plugin of pytest that notes when a test begins and how it ends, also of a killed run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cpu_limit = False
        path.write_text("")

    def _note(self, *fields: object) -> None:
        with self._path.open("a") as file:
            file.write("\t".join(map(str, (*fields, time.time()))) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note("begin", nodeid)
        if self.cpu_limit:  # seconds by the clock say little on a busy machine
            signal.signal(signal.SIGPROF, _fail)
            signal.setitimer(signal.ITIMER_PROF, TEST_LIMIT)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid)
        elif report.when == "call" and report.passed:
            self._note("passed", report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._note("end", nodeid)


def _fail(number: int, frame: object) -> None:
    import_module("pytest").fail(f"a test took more than {TEST_LIMIT} s")


def read_notes(path: Path) -> tuple[dict[str, bool], tuple[str, float] | None]:
    """Return whether each test passed, and the test that did not end."""
    ended: dict[str, bool] = {}
    hanging = None
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        kind, *names, moment = line.split("\t")
        test = "\t".join(names)
        if kind in ("failed", "passed"):
            ended[test] = kind == "passed" and ended.get(test, True)
        hanging = (test, time.time() - float(moment)) if kind == "begin" else None
    return ended, hanging


def _output(folder: Path) -> Path:
    return folder.with_suffix(".txt")


def _notes(folder: Path) -> Path:
    return folder.with_suffix(".notes")
