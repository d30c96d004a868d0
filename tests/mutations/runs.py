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

from tests.mutations.listing import Mutation

OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0")
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
    """Some tests, with or without a fault in the code."""

    tests: tuple[str, ...]
    mutation: Mutation | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        run: what was run.
        code: pytest's exit code, or minus the number of a signal; None: it took too long.
        seconds: how long it took.
        output: what it wrote.
    """

    run: Run
    code: int | None
    seconds: float
    output: str

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
        failed = [line for line in self.output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0].split(" - ")[0].split(maxsplit=1)[1] if failed else "?"


def warm_up(home: Path) -> None:
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
    for name in LIBRARIES:
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
                running[_fork(folder, run.tests)] = run, folder, time.monotonic()
            time.sleep(0.02)
            for pid, (run, folder, begin) in list(running.items()):
                seconds = time.monotonic() - begin
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and seconds < limit:
                    continue
                del running[pid]
                _end(pid, reap=not ended)
                if run.mutation is not None:
                    shutil.copy2(whole / run.mutation.file, folder / run.mutation.file)
                code = os.waitstatus_to_exitcode(status) if ended else None
                yield Outcome(run, code, seconds, _output(folder).read_text("utf-8", "replace"))
                free.append(folder)
    finally:
        for pid in running:
            _end(pid, reap=True)


def _write(mutation: Mutation, whole: Path, folder: Path, number: int) -> None:
    path = folder / mutation.file
    path.write_text(mutation.mutated(whole), "utf-8")
    # Python takes compiled code for that of a file of the same size and time: no two have one time.
    os.utime(path, (number, number))


def _fork(folder: Path, tests: Sequence[str]) -> int:
    """Start a run in a process group of its own, and return its number."""
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
        code = int(import_module("pytest").main([*OPTIONS, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _end(pid: int, *, reap: bool) -> None:
    """Kill a run and the processes that its tests have started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if reap:
        os.waitpid(pid, 0)


def _output(folder: Path) -> Path:
    return folder.with_suffix(".txt")
