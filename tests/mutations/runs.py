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

from tests.mutations.mutants import Mutant

OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0")
SELECTION = ("-m", "not browser and not extended")  # of the tests of a room
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
    "streamlit.testing.v1",
)


@dataclass(frozen=True)
class Run:
    """Some tests, with or without a fault in the code.

    Args:
        tests: files or node ids.
        mutant: the fault.
        is_room: the tests are all of a room, so that those left to `make test-all` stay out.
        every: go on after a failure.
    """

    tests: tuple[str, ...]
    mutant: Mutant | None = None
    is_room: bool = False
    every: bool = False


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

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
    def killers(self) -> list[str]:
        """Return the tests that failed, or what ended the run in their place."""
        if self.code is None:  # a room may just be large
            return [] if self.run.is_room else ["the time limit"]
        if self.code < 0:
            return [f"signal {-self.code}"]
        return re.findall(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", self.output, re.MULTILINE)

    @property
    def survived(self) -> bool:
        """Return whether tests passed and none failed; skipped tests do not count."""
        if self.code is None:
            return self.run.is_room
        return self.code == 0 and bool(re.search(r"^\d+ passed\b", self.output, re.MULTILINE))


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
    """Copy all files that git tracks or does not ignore, and link what npm has installed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    if (root / "node_modules").is_dir():
        (folder / "node_modules").symlink_to((root / "node_modules").resolve())


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
                if run.mutant is not None:
                    _write(run.mutant, whole, folder, number)
                running[_fork(folder, run)] = run, folder, time.monotonic()
            time.sleep(0.02)
            for pid, (run, folder, begin) in list(running.items()):
                seconds = time.monotonic() - begin
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and seconds < limit:
                    continue
                del running[pid]
                _end_process(pid, reap=not ended)
                if run.mutant is not None:
                    shutil.copy2(whole / run.mutant.file, folder / run.mutant.file)
                code = os.waitstatus_to_exitcode(status) if ended else None
                yield Outcome(run, code, seconds, _output(folder).read_text("utf-8", "replace"))
                free.append(folder)
    finally:
        for pid in running:
            _end_process(pid, reap=True)


def _write(mutant: Mutant, whole: Path, folder: Path, number: int) -> None:
    path = folder / mutant.file
    path.write_text(mutant.mutated(whole), "utf-8")
    # Python takes compiled code for that of a file of the same size and time: no two have one time.
    os.utime(path, (number, number))


def _fork(folder: Path, run: Run) -> int:
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
        starting_folders = ("", os.getcwd())
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if path not in starting_folders)]
        sys.dont_write_bytecode = False  # the folder is ours
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        options = [*OPTIONS, *(() if run.every else ("-x",)), *(SELECTION if run.is_room else ())]
        code = int(import_module("pytest").main([*options, *run.tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _end_process(pid: int, *, reap: bool) -> None:
    """Kill a run and the processes that its tests have started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if reap:
        os.waitpid(pid, 0)


def _output(folder: Path) -> Path:
    return folder.with_suffix(".txt")
