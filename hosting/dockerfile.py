"""A Dockerfile as it is meant: stages of instructions, and the files that may be copied."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mha_viz.errors import ArgumentError

KNOWN = frozenset(
    {"ARG", "CMD", "COPY", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "WORKDIR"}
)


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name, its flags (`--from=build`), and what follows them."""

    line: int
    name: str
    flags: Mapping[str, str]
    text: str

    def words(self, variables: Mapping[str, str]) -> list[str]:
        """What follows, as words: the strings of a JSON list as they are, else with variables."""
        if self.text.startswith("["):
            words: list[str] = json.loads(self.text)
            return words
        return shlex.split(with_variables(self.text, variables))

    def command(self) -> list[str]:
        """What CMD, RUN or the CMD of a HEALTHCHECK runs: its own words, or a shell."""
        text = self.text.removeprefix("CMD").lstrip() if self.name == "HEALTHCHECK" else self.text
        return json.loads(text) if text.startswith("[") else ["/bin/sh", "-c", text]


@dataclass
class Stage:
    """What follows one FROM."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> Instruction:
        """The instruction of that name that counts: the last.

        Raises:
            ArgumentError: there is none.
        """
        found = [each for each in self.instructions if each.name == name]
        if not found:
            raise ArgumentError(f"Expected {name} in the stage {self.name!r}, found none: add it.")
        return found[-1]


def read_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile.

    Raises:
        ArgumentError: an instruction stands before the first FROM, or is not one of `KNOWN`.
    """
    stages: list[Stage] = []
    for instruction in _instructions(text):
        if instruction.name not in KNOWN:
            raise ArgumentError(
                f"Line {instruction.line} of the Dockerfile says {instruction.name}, which cannot "
                f"be carried out here: expected one of {', '.join(sorted(KNOWN))}."
            )
        if instruction.name == "FROM":
            base, *name = instruction.text.split()
            stages.append(Stage(base, name[1] if name else str(len(stages))))
        elif stages:
            stages[-1].instructions.append(instruction)
        else:
            raise ArgumentError(
                f"Line {instruction.line} of the Dockerfile stands before the first FROM: put it "
                "behind one."
            )
    return stages


def _instructions(text: str) -> Iterator[Instruction]:
    parts: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):  # also between the lines of one instruction
            continue
        first = first if parts else number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield _instruction(first, " ".join(parts))
            parts = []


def _instruction(line: int, text: str) -> Instruction:
    name, _, rest = text.partition(" ")
    flags = {}
    while found := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    return Instruction(line, name.upper(), flags, rest.strip())


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text, with the value of each `$NAME` and `${NAME}` in its place, or nothing."""
    return re.sub(
        r"\$(?:(\w+)|\{(\w+)\})", lambda found: variables.get(found[1] or found[2], ""), text
    )


def copied_files(root: Path, ignore: str) -> list[Path]:
    """The files below a folder that a .dockerignore lets through, as paths within the folder."""
    lines = [line for line in map(str.strip, ignore.splitlines()) if line and line[0] != "#"]
    rules = [
        (line[0] != "!", re.compile(_as_expression(line.lstrip("!").strip("/")))) for line in lines
    ]

    def is_ignored(path: Path) -> bool:
        above = [path, *path.parents][:-1]  # without "."
        verdict = False
        for ignores, expression in rules:  # the last that fits decides
            if any(expression.fullmatch(each.as_posix()) for each in above):
                verdict = ignores
        return verdict

    # What nothing is taken from is not looked through: an environment holds 50,000 files.
    taken = {line[1:].split("/")[0] for line in lines if line[0] == "!"}
    tops = [top for top in root.iterdir() if "*" not in lines or top.name in taken]
    below = [path for top in sorted(tops) for path in ([top] if top.is_file() else top.rglob("*"))]
    found = [path.relative_to(root) for path in below if path.is_file()]
    return sorted(path for path in found if not is_ignored(path))


def _as_expression(pattern: str) -> str:
    """A pattern of .dockerignore as a regular expression."""
    parts = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]*\]|.", pattern)
    return "".join(
        parts.get(piece) or (piece if len(piece) > 1 else re.escape(piece)) for piece in pieces
    )
