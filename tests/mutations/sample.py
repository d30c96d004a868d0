"""Mutants drawn at random: the files that hold them, and their place in code that has moved since.

`drawing.py` draws them. A mutant names whole lines, so that a person can read it and so that it
still fits after lines above it have changed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample.jsonl"
HELD_BACK = Path(__file__).parent / "held_back.jsonl"
JAVASCRIPT = "mha_viz/web/components/"
GROUPS = ("ui", "web (JavaScript)", "learn", "rest")


class StaleError(Exception):
    """A mutant whose lines are gone from its file."""


@dataclass(frozen=True)
class Sampled:
    """A fault that was drawn at random.

    Args:
        id: a name that stays.
        file: where the fault is made, from the root of the project.
        line: the number of the first line that it changes, at the time of the drawing.
        operator: the kind of change.
        before: the lines that it changes.
        after: what replaces them, which may be nothing.
        equivalent: why no test can notice it, or "".
    """

    id: str
    file: str
    line: int
    operator: str
    before: str
    after: str
    equivalent: str = ""

    @property
    def name(self) -> str:
        return f"{self.id} {self.operator}"

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

    def first_line(self, root: Path) -> int:
        """Return the line at which the changed lines begin now, 1-based, nearest to `line`.

        Raises:
            StaleError: the lines are gone.
        """
        path = root / self.file
        lines = path.read_text("utf-8").split("\n") if path.is_file() else []
        before = self.before.split("\n")
        n = len(before)
        starts = [i + 1 for i in range(len(lines) - n + 1) if lines[i : i + n] == before]
        if not starts:
            raise StaleError(f"{self.id}: the lines are gone from {self.file}:\n{self.before}")
        return min(starts, key=lambda start: abs(start - self.line))

    def mutated(self, root: Path) -> str:
        """Return the file's text with the fault in it.

        Raises:
            StaleError: the lines are gone.
        """
        start = self.first_line(root) - 1
        lines = (root / self.file).read_text("utf-8").split("\n")
        after = self.after.split("\n") if self.after else []
        lines[start : start + len(self.before.split("\n"))] = after
        return "\n".join(lines)


def read_sample(path: Path = SAMPLE) -> list[Sampled]:
    """Read mutants, one a line, in the order of the file."""
    return [Sampled(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def write_sample(mutants: Sequence[Sampled], path: Path) -> None:
    """Write mutants, one a line."""
    rows = [{key: value for key, value in asdict(m).items() if value != ""} for m in mutants]
    for row in rows:
        row.setdefault("after", "")
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
