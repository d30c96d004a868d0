"""What a Dockerfile describes, built in sandboxes: one for each stage, as an engine would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hosting.dockerfile import Instruction, Stage, copied_files, read_stages, with_variables
from hosting.sandbox import BASE_VARIABLES, Sandbox
from mha_viz.errors import ArgumentError

# What a build hears of the machine around it: an engine hands proxies on, and we where pip looks.
_HANDED_ON = re.compile(r"PIP_\w+|(https?|no|all)_proxy|SSL_CERT_FILE", re.I)


@dataclass
class Built:
    """A stage so far: its files, and what a program in it is started with."""

    sandbox: Sandbox
    base_bytes: int
    arguments: dict[str, str] = field(default_factory=dict)  # known while it is built, not later
    variables: dict[str, str] = field(default_factory=lambda: dict(BASE_VARIABLES))
    folder: str = "/"
    user: str = "0:0"
    ports: list[int] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def added_bytes(self) -> int:
        """How much the stage holds beyond what it began with."""
        return disk_bytes(self.sandbox.root) - self.base_bytes


def build(root: Path, given: Mapping[str, str], work: Path) -> Built:
    """The last stage of the Dockerfile in `root`, built below the new folder `work`.

    Args:
        root: the folder that files are copied from, as .dockerignore says.
        given: values for ARG, as of `docker build --build-arg`.
        work: where everything is put.

    Raises:
        ArgumentError: an instruction cannot be carried out, or has failed.
    """
    files = copied_files(root, (root / ".dockerignore").read_text("utf-8"))
    builder = _Builder(root, files, given)
    for stage in read_stages((root / "Dockerfile").read_text("utf-8")):
        builder.carry_out(stage, work / stage.name)
    return builder.built[stage.name]


class _Builder:
    def __init__(self, root: Path, files: list[Path], given: Mapping[str, str]) -> None:
        self.root = root
        self.files = files
        self.given = given
        self.built: dict[str, Built] = {}

    def carry_out(self, stage: Stage, folder: Path) -> None:
        if not stage.base.startswith("python:"):
            raise ArgumentError(
                f"The stage {stage.name!r} begins with {stage.base}: expected the image `python`, "
                "which the interpreter of this machine can stand in for."
            )
        print(f"FROM {stage.base}: Python {sys.version.split()[0]} of this machine stands in")
        if "{}.{}.".format(*sys.version_info) not in stage.base:
            print("  another version than the Dockerfile's: run it with that one to be sure")
        sandbox = Sandbox(folder, folders_of_pip())
        built = self.built[stage.name] = Built(sandbox, disk_bytes(folder))
        for instruction in stage.instructions:
            print(f"{instruction.name} {instruction.text}", flush=True)
            getattr(self, f"_{instruction.name.lower()}")(built, instruction)
        sandbox.shown = ()

    def _arg(self, built: Built, instruction: Instruction) -> None:
        name, _, value = instruction.text.partition("=")
        built.arguments[name] = self.given.get(name, value)

    def _env(self, built: Built, instruction: Instruction) -> None:
        before = built.arguments | built.variables
        built.variables |= dict(word.split("=", 1) for word in instruction.words(before))

    def _workdir(self, built: Built, instruction: Instruction) -> None:
        built.folder = os.path.join(built.folder, with_variables(instruction.text, built.variables))
        built.sandbox.inside(built.folder).mkdir(parents=True, exist_ok=True)

    def _user(self, built: Built, instruction: Instruction) -> None:
        if not re.fullmatch(r"\d+:\d+", instruction.text):
            raise ArgumentError(
                f"Line {instruction.line} of the Dockerfile: expected USER with two numbers, such "
                f"as 1000:1000, got {instruction.text!r}. Numbers are what others can check."
            )
        built.user = instruction.text

    def _expose(self, built: Built, instruction: Instruction) -> None:
        built.ports += [int(word) for word in instruction.words(built.variables)]

    def _cmd(self, built: Built, instruction: Instruction) -> None:
        built.command = instruction.command()

    def _healthcheck(self, built: Built, instruction: Instruction) -> None:
        built.health = instruction.command()

    def _copy(self, built: Built, instruction: Instruction) -> None:
        *sources, target = instruction.words(built.arguments | built.variables)
        place = built.sandbox.inside(os.path.join(built.folder, target))
        into = target.endswith(("/", ".")) or place.is_dir()
        for source in sources:
            if "from" in instruction.flags:
                self._copy_from(self.built[instruction.flags["from"]], source, place)
            else:
                self._copy_files(Path(source), place, into, instruction.line)

    def _copy_from(self, stage: Built, source: str, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        # Links to the same bytes: nobody writes to the stage again.
        subprocess.run(["cp", "-al", f"{stage.sandbox.inside(source)}/.", place], check=True)

    def _copy_files(self, source: Path, place: Path, into: bool, line: int) -> None:
        found = [path for path in self.files if path.is_relative_to(source)]
        if not found:
            raise ArgumentError(
                f"Line {line} of the Dockerfile copies {source}: there is no such file, or "
                ".dockerignore leaves it out."
            )
        for path in found:
            below = path.name if path == source else path.relative_to(source)
            target = place / below if into or path != source else place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / path, target)

    def _run(self, built: Built, instruction: Instruction) -> None:
        if re.search(r"\b(apt|apt-get|dpkg)\b", instruction.text):
            print("  not carried out: this machine's system stands in for the image's")
            return
        surroundings = {name: text for name, text in os.environ.items() if _HANDED_ON.match(name)}
        variables = surroundings | built.arguments | built.variables
        status = built.sandbox.start(
            instruction.command(), variables, folder=built.folder, user=built.user
        ).wait()
        if status != 0:
            raise ArgumentError(
                f"Line {instruction.line} of the Dockerfile ended with status {status}: its own "
                "words stand above."
            )


def folders_of_pip() -> list[Path]:
    """The folders of this machine that pip takes packages from: RUN may read them."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    links = re.findall(r"(?:file://)?(/[^\s']+)", listed)
    found = {Path(link) for link in links if Path(link).is_dir()}
    # The files that a folder's index leads to lie beside it.
    found = {path.parent if path.name == "simple" else path for path in found}
    return sorted(found)


def disk_bytes(folder: Path) -> int:
    """What a folder takes on disk."""
    command = ["du", "--summarize", "--block-size=1", "--one-file-system", str(folder)]
    return int(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    )
