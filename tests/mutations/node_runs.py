"""Runs of the JavaScript tests on a mutated component, in node."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.sample import JAVASCRIPT, Sampled

TESTS = Path("tests/web/javascript")
LIMIT = 120  # seconds for one file of tests; the slowest takes ten
IMPORT = re.compile(r"""["'](\.{1,2}/[^"'\n]+\.js)["']""")
WRITE = """
import json, sys
from tests.web.from_python import written
open(sys.argv[1], "w").write(json.dumps(written()))
"""


@dataclass(frozen=True)
class Killed:
    """What the tests of a mutant said: how many ran, and the names of those that failed."""

    n_tests: int
    failed: list[str]


def write_values(root: Path, python: str, path: Path) -> None:
    """Write the values of Python that the JavaScript tests read."""
    subprocess.run([python, "-c", WRITE, str(path)], cwd=root, check=True, capture_output=True)


def importers(root: Path, file: str) -> list[Path]:
    """Return the test files that import a component, directly or through others."""
    wanted = (root / file).resolve()
    tests = sorted((root / TESTS).glob("test_*.js"))
    return [path for path in tests if wanted in _imported(path, {path})]


def _imported(path: Path, seen: set[Path]) -> set[Path]:
    for name in IMPORT.findall(path.read_text("utf-8")):
        if (target := (path.parent / name).resolve()) not in seen and target.is_file():
            seen.add(target)
            _imported(target, seen)
    return seen


def run_javascript(mutant: Sampled, whole: Path, folder: Path, values: Path, every: bool) -> Killed:
    """Run the tests that import a mutated component, and leave the folder as it was.

    Args:
        mutant: the fault.
        whole: the tree without it.
        folder: a copy of that tree in which nothing else runs.
        values: a file that `write_values` wrote.
        every: go on after a file with a failure.
    """
    assert mutant.file.startswith(JAVASCRIPT)
    path = folder / mutant.file
    path.write_text(mutant.mutated(whole), "utf-8")
    n_tests, failed = 0, []
    try:
        for test in importers(folder, mutant.file):
            n, names = _run(test, folder, values)
            n_tests += n
            failed += names
            if failed and not every:
                break
    finally:
        shutil.copy2(whole / mutant.file, path)
    return Killed(n_tests, failed)


def _run(test: Path, folder: Path, values: Path) -> tuple[int, list[str]]:
    name = test.relative_to(folder).as_posix()
    command = ["node", "--test-reporter=tap", str(test)]
    environment = os.environ | {"FROM_PYTHON": str(values)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return 1, [f"{name}::(time limit)"]
    results = re.findall(r"^(not ok|ok) \d+ - (.*)$", done.stdout, re.MULTILINE)
    failed = [f"{name}::{title.split(' # ')[0]}" for said, title in results if said == "not ok"]
    if done.returncode and not failed:
        failed = [f"{name}::(the file)"]
    return len(results), failed
