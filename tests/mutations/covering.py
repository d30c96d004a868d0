"""The tests that run a mutant's lines, from a coverage data base with a context for each test.

`python -m pytest --cov=mha_viz --cov-context=test --junit-xml=...` makes both files.
"""

import ast
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from tests.mutations.patching import FUNCTION, is_in_function
from tests.mutations.sample import Sampled

FEW = 5  # tests of the room; with fewer, tests of other rooms are taken, too
BUDGET = 20.0  # seconds of all tests of a mutant, as they took when coverage was measured
MAX_TESTS = 250


class Covering:
    """What tests run which lines.

    Args:
        root: the tree that was measured.
        folder: holds the data, `.coverage*`, and `junit.xml`.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        coverage = import_module("coverage")
        self._data = []
        for path in sorted(folder.glob(".coverage*")):
            data = coverage.CoverageData(basename=str(path))
            data.read()
            self._data.append(data)
        self._times = _times(folder / "junit.xml")
        self._lines: dict[str, dict[int, set[str]]] = {}

    def tests(self, mutant: Sampled) -> tuple[str, ...]:
        """Return the node ids of the tests to run on a Python mutant, file by file.

        The quickest are taken first, as many as the budget of time allows. Tests that failed or
        were skipped when coverage was measured are left out.
        """
        lines = self._contexts(mutant.file)
        tree = ast.parse((self._root / mutant.file).read_text("utf-8"))
        start = mutant.first_line(self._root)
        end = start + mutant.before.count("\n")
        covering: set[str] = set()
        for wanted in _ranges(tree, start, end):
            tests = {test for line in wanted for test in lines.get(line, ())}
            covering = _of_room(tests & self._times.keys(), mutant)
            if covering:
                break
        return self._within_budget(covering)

    def runs_at_import(self, mutant: Sampled) -> bool:
        """Return whether a Python mutant's lines run while modules are imported."""
        text = (self._root / mutant.file).read_text("utf-8")
        start = mutant.first_line(self._root)
        end = start + mutant.before.count("\n")
        lines = self._contexts(mutant.file)
        at_import = any("" in lines.get(line, ()) for line in range(start, end + 1))
        return at_import or not is_in_function(text, start, end)

    def _contexts(self, file: str) -> dict[int, set[str]]:
        """Return the tests that ran each line of a file.

        A fixture of a module runs once, before the first test that needs it: its lines count for
        all tests of that file.
        """
        if file not in self._lines:
            by_line: dict[int, set[str]] = {}
            for data in self._data:
                for line, contexts in data.contexts_by_lineno(str(self._root / file)).items():
                    by_line.setdefault(line, set()).update(contexts)
            self._lines[file] = {line: self._named(names) for line, names in by_line.items()}
        return self._lines[file]

    def _named(self, contexts: Iterable[str]) -> set[str]:
        tests, files = set(), set()
        for context in contexts:
            test, _, phase = context.rpartition("|")
            tests.add(test)
            if phase == "setup":
                files.add(test.partition("::")[0])
        if files:
            tests |= {test for test in self._times if test.partition("::")[0] in files}
        return tests

    def _within_budget(self, tests: Iterable[str]) -> tuple[str, ...]:
        chosen: dict[str, list[str]] = {}
        left = BUDGET
        ordered = sorted(tests, key=lambda test: (self._times[test], test))
        for number, test in enumerate(ordered[:MAX_TESTS]):
            left -= self._times[test]
            if left < 0 and number:
                break
            chosen.setdefault(test.partition("::")[0], []).append(test)
        files = sorted(chosen, key=lambda file: sum(self._times[test] for test in chosen[file]))
        return tuple(test for file in files for test in chosen[file])


def _times(path: Path) -> dict[str, float]:
    """Return how long each test took that passed, in seconds, by node id."""
    times = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if not any(child.tag in ("failure", "error", "skipped") for child in case):
            name = _node_id(case.get("classname", ""), case.get("name", ""))
            times[name] = float(case.get("time", 0))
    return times


def _node_id(classname: str, name: str) -> str:
    """Return a node id of what a JUnit file says: the classes follow the module."""
    match = re.match(r"((?:[^.]+\.)*?[^.]+?)((?:\.[A-Z]\w*)*)$", classname)
    module, classes = match.groups() if match else (classname, "")
    return f"{module.replace('.', '/')}.py{classes.replace('.', '::')}::{name}"


def _of_room(tests: set[str], mutant: Sampled) -> set[str]:
    """Keep the tests of the mutant's room, where these are not too few."""
    rooms = [mutant.room, *(("ui", "labs") if mutant.room in ("ui", "learn") else ())]
    folders = tuple(f"{top}/{room}/" for top in ("tests", "mha_viz") for room in rooms)
    near = {test for test in tests if test.startswith(folders)} if mutant.room else set()
    return near if len(near) >= FEW else tests


def _ranges(tree: ast.Module, start: int, end: int) -> list[set[int]]:
    """Return sets of lines whose tests may notice a change, from the nearest to the whole module.

    Lines that run while the module is imported belong to no test: what a function's decorators
    and defaults say shows in its body, and the rest in all functions of the module.
    """
    chain = []  # statements around the lines, from the outermost
    for node in ast.walk(tree):  # breadth first
        if isinstance(node, ast.stmt) and _first(node) <= start and end <= (node.end_lineno or 0):
            chain.append(node)
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    everything = {line for node in functions for line in _body(node)}
    if not chain:
        return [everything]
    inner = chain[-1]
    body = getattr(inner, "body", None)
    last = body[0].lineno - 1 if body else inner.end_lineno or inner.lineno
    statement = set(range(_first(inner), max(last, end) + 1))
    if isinstance(inner, FUNCTION) and start < inner.body[0].lineno:
        return [_body(inner), everything]
    if any(isinstance(node, FUNCTION) for node in chain[:-1]):
        # Code of another process is measured nowhere: tests of its module may start that process.
        return [set(range(start, end + 1)), statement, everything]
    classes = [node for node in chain if isinstance(node, ast.ClassDef)]
    methods = {
        line
        for node in classes
        for method in ast.walk(node)
        if isinstance(method, FUNCTION)
        for line in _body(method)
    }
    return [methods, everything] if methods else [everything]


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    return set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
