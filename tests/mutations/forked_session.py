"""One pytest session that has collected all tests, and forks for each fault.

A fork runs the tests of one fault right away: what imports and collection take, two thirds of a
short run, is spent once. Only faults in bodies of functions can be tried so.
"""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutations.patching import PatchError, loaded_functions, patch
from tests.mutations.runs import OPTIONS, Notes, Outcome, Run, end_process, read_notes
from tests.mutations.sample import Sampled

COLLECTED = ("-m", "not browser and not extended", "tests", "mha_viz")
CPU_LIMIT = 40.0  # seconds of the processor that all tests of a fault may take
LIMIT = 180.0  # seconds by the clock
MAX_FAILURES = 6  # of a run that goes on after the first
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class ForkedSession:
    """A plugin of pytest that runs faults in place of the collected tests.

    Args:
        folder: the tree that was collected, the working directory.
        next_run: returns what to run next, None at the end.
        report: takes an outcome; None for a fault that loaded functions cannot take.
    """

    folder: Path
    next_run: Callable[[], Run | None]
    report: Callable[[Run, Outcome | None], None]

    def pytest_runtestloop(self, session: Any) -> bool:
        items: dict[str, list[Any]] = {}  # by node id, and by file
        for item in session.items:
            items[item.nodeid] = [item]
            items.setdefault(item.nodeid.partition("::")[0], []).append(item)
        functions = loaded_functions(self.folder)
        gc.freeze()  # forks leave the objects alone that they share
        while (run := self.next_run()) is not None:
            mutant = run.mutation
            assert isinstance(mutant, Sampled)
            path = self.folder / mutant.file
            text = path.read_text("utf-8")
            mutated = mutant.mutated(self.folder)
            chosen = [item for test in run.tests for item in items.get(test, ())]
            change = partial(patch, path, text, mutated, functions.get(str(path), ()))
            # Tests that start processes have the fault in the file.
            path.write_text(mutated, "utf-8")
            try:
                self.report(run, self._fork(session, run, chosen, change))
            finally:
                path.write_text(text, "utf-8")
        return True

    def _fork(
        self, session: Any, run: Run, items: Sequence[Any], change: Callable[[], None]
    ) -> Outcome | None:
        notes, output = self.folder.with_suffix(".notes"), self.folder.with_suffix(".txt")
        notes.unlink(missing_ok=True)
        begin = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        if not (pid := os.fork()):
            code = 3
            try:
                os.setpgid(0, 0)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                number = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for stream in (1, 2):
                    os.dup2(number, stream)
                change()
                code = self._run(session, run, items, Notes(notes))
            except PatchError:
                code = 99
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        with suppress(OSError):
            os.setpgid(pid, pid)
        ended, status = 0, 0
        while not ended and time.monotonic() - begin < LIMIT and _cpu(pid) < CPU_LIMIT:
            time.sleep(0.02)
            ended, status = os.waitpid(pid, os.WNOHANG)
        end_process(pid, reap=not ended)
        exit_code = os.waitstatus_to_exitcode(status) if ended else None
        if exit_code == 99:
            return None
        said = output.read_text("utf-8", "replace") if output.exists() else ""
        seconds = time.monotonic() - begin
        return Outcome(run, exit_code, seconds, said, *read_notes(notes))

    def _run(self, session: Any, run: Run, items: Sequence[Any], notes: Notes) -> int:
        session.config.pluginmanager.register(notes)
        session.items = list(items)
        session.config.option.maxfail = MAX_FAILURES if run.every else 1
        if run.every:
            notes.cpu_limit = True
        try:
            import_module("_pytest.main").pytest_runtestloop(session)
        except (session.Failed, session.Interrupted):
            return 1
        return 1 if session.testsfailed else 0 if items else 5


def start_session(
    folder: Path,
    next_run: Callable[[], Run | None],
    report: Callable[[Run, Outcome | None], None],
) -> int:
    """Start a process that collects all tests of a folder and runs faults; return its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 3
    try:
        here = ("", os.getcwd())
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if path not in here)]
        plugin = ForkedSession(folder, next_run, report)
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        options = [*OPTIONS, "-s", *COLLECTED]
        code = int(import_module("pytest").main(options, plugins=[plugin]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _cpu(pid: int) -> float:
    """Return the seconds of the processor that a process has taken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK
