"""Faults that tests have to notice, and where they stand in code that has moved since.

People list faults in the TOML files beside this module. `sample.jsonl` and `held_back.jsonl` hold
faults that were drawn at random from all code, 340 and 85 in Python by the operators of cosmic-ray
8.7.0, 60 and 15 in JavaScript: a file by its lines of code, then a line, then an operator.
`matrix.jsonl` has the tests that noticed each drawn fault, the quickest first.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LISTS = tuple(sorted(FOLDER.glob("*.toml")))
SAMPLE = FOLDER / "sample.jsonl"
HELD_BACK = FOLDER / "held_back.jsonl"
MATRIX = FOLDER / "matrix.jsonl"
JAVASCRIPT = "mha_viz/web/components/"
NODE_TEST = "tests/web/test_javascript.py::test_the_browsers_modules_do_what_they_say"
Row = dict[str, Any]
GROUPS = ("ui", "web (JavaScript)", "learn", "rest")


class StaleError(Exception):
    """An entry that does not fit the code or the format of its file."""


@dataclass(frozen=True)
class Mutant:
    """A fault in one file.

    Args:
        name: the fault in a few words, or the id of a drawn one.
        file: where it is made, from the root of the project.
        before: a piece of the file, whole lines for a drawn fault.
        after: what replaces that piece, which may be nothing.
        tests: files or node ids of the tests of which one has to fail.
        line: where a drawn fault was drawn, 1-based; 0 for a listed one, whose piece occurs once.
        equivalent: why no test can notice it, or "".
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    line: int = 0
    equivalent: str = ""

    @property
    def room(self) -> str:
        """Return the package of mha_viz that the file belongs to, "" for modules at the top."""
        parts = Path(self.file).parts
        return parts[1] if len(parts) > 2 else ""

    @property
    def group(self) -> str:
        """Return the group whose rate counts the mutant."""
        if self.file.startswith(JAVASCRIPT):
            return "web (JavaScript)"
        return self.room if self.room in ("ui", "learn") else "rest"

    def mutated(self, root: Path) -> str:
        """Return the file's text with the fault in it, for a drawn one at the nearest lines.

        Raises:
            StaleError: the piece is gone, or that of a listed fault occurs more than once.
        """
        path = root / self.file
        text = path.read_text("utf-8") if path.is_file() else ""
        piece = re.escape(self.before)
        pattern = rf"^{piece}$\n{{,{int(not self.after)}}}" if self.line else piece
        matches = list(re.finditer(pattern, text, re.MULTILINE))
        if not matches or (len(matches) > 1 and not self.line):
            raise StaleError(
                f"{self.name}: expected this piece once in {self.file}, found it "
                f"{len(matches)} times:\n{self.before}"
            )
        nearest = min(matches, key=lambda m: abs(text.count("\n", 0, m.start()) + 1 - self.line))
        return text[: nearest.start()] + self.after + text[nearest.end() :]

    def tests_in(self, root: Path, *, whole_room: bool = False) -> tuple[tuple[str, ...], bool]:
        """Return the tests to run, and whether these are all tests of the room.

        Those that are named are run; where none of them is left in the tree, the room's.
        """
        named = () if whole_room else dict.fromkeys(function_of(test) for test in self.tests)
        if present := tuple(test for test in named if is_defined(test, root)):
            return present, False
        if self.file.startswith(JAVASCRIPT):
            return (NODE_TEST,), True
        rooms = ("ui", "labs") if self.room in ("ui", "learn") else (self.room,)
        folders = (f"{top}/{room}" for top in ("tests", "mha_viz") for room in rooms)
        return tuple(folder for folder in folders if (root / folder).is_dir()), True


def function_of(test: str) -> str:
    """Return the function of a node id; a JavaScript test is run by the Python test of its file."""
    if test.startswith("tests/web/javascript/"):
        return f"{NODE_TEST}[{Path(test.partition('::')[0]).stem}]"
    return test.partition("[")[0]


def is_defined(test: str, root: Path) -> bool:
    """Return whether a tree has the file, and the function or doctest, of a node id."""
    file, _, name = test.partition("[")[0].partition("::")
    if not (root / file).is_file():
        return False
    last = re.escape(re.split(r"::|\.", name)[-1])
    return not name or bool(re.search(rf"(def|class) {last}\b", (root / file).read_text("utf-8")))


def read_lists(paths: Sequence[Path] = LISTS) -> list[Mutant]:
    """Read listed faults, in the order of the files.

    Raises:
        StaleError: an entry lacks a field, has an unknown one, or a name is used twice.
    """
    mutants = []
    for path in paths:
        for entry in tomllib.loads(path.read_text("utf-8"))["mutation"]:
            try:
                mutants.append(Mutant(**{**entry, "tests": tuple(entry["tests"])}))
            except (KeyError, TypeError) as error:
                raise StaleError(f"{path.name}: {entry.get('name', entry)}: {error}") from error
    repeated = [name for name, n in Counter(mutant.name for mutant in mutants).items() if n > 1]
    if repeated:
        raise StaleError(f"Names of mutations have to differ: {', '.join(repeated)}")
    return mutants


def read_sample(path: Path = SAMPLE, matrix: Path = MATRIX) -> list[Mutant]:
    """Read drawn faults, one a line, each with the tests that noticed it."""
    killers = {name: row["killers"] for name, row in read_rows(matrix).items()}
    mutants = []
    for name, row in read_rows(path).items():
        fields = {field: row[field] for field in ("file", "line", "before", "after")}
        tests, equivalent = tuple(killers.get(name, ())), row.get("equivalent", "")
        mutants.append(Mutant(name, **fields, tests=tests, equivalent=equivalent))
    return mutants


def read_rows(path: Path) -> dict[str, Row]:
    """Read a file with a JSON object a line, by id."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}
