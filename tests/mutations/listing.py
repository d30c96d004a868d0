"""The faults that a test has to notice, as the TOML files beside this module list them."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LISTS = tuple(sorted(Path(__file__).parent.glob("*.toml")))


class ListError(Exception):
    """An entry of a list that does not fit the code."""


@dataclass(frozen=True)
class Mutation:
    """A fault that a person could make in one file.

    Args:
        name: the fault, in a few words.
        file: where it is made, from the root of the project.
        before: a piece of the file that occurs once.
        after: what replaces that piece.
        tests: files or node ids of the tests of which one has to fail.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def mutated(self, root: Path) -> str:
        """Return the file's text with the fault in it.

        Raises:
            ListError: the piece that is to be replaced does not occur exactly once.
        """
        path = root / self.file
        text = path.read_text("utf-8") if path.is_file() else ""
        if (n := text.count(self.before)) != 1:
            raise ListError(
                f"{self.name}: expected this piece once in {self.file}, found it {n} times:\n"
                f"{self.before}"
            )
        return text.replace(self.before, self.after)


def read_lists(paths: Sequence[Path] = LISTS) -> list[Mutation]:
    """Read the mutations of all lists, in the order of the files.

    Raises:
        ListError: an entry lacks a field, has an unknown one, or a name is used twice.
    """
    found = []
    for path in paths:
        for entry in tomllib.loads(path.read_text("utf-8"))["mutation"]:
            try:
                found.append(Mutation(**{**entry, "tests": tuple(entry["tests"])}))
            except (KeyError, TypeError) as error:
                raise ListError(f"{path.name}: {entry.get('name', entry)}: {error}") from error
    twice = [name for name, n in Counter(one.name for one in found).items() if n > 1]
    if twice:
        raise ListError(f"Names of mutations have to differ: {', '.join(twice)}")
    return found
