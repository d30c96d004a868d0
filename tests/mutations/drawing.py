"""The drawing of random mutants: `python -m tests.mutations.drawing` writes both sample files.

The operators for Python are those of cosmic-ray, which only the drawing needs; it is not among the
requirements: `pip install cosmic-ray==8.7.0`. Those for JavaScript stand in javascript.mjs, which
reads the code by `espree` (npm ci). Drawing again replaces the samples, so that rates before and
after cannot be compared any more.

A file is drawn by its lines of code, then a line, then a family of operators, then one variant.
Left out are type annotations, docstrings, logging, `if TYPE_CHECKING`, and what does not compile or
cannot be imported. So are variants that mostly raise a TypeError (`a << b` for numbers), or that
mostly change nothing (`is` for `==`).
"""

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutations.runs import copy_tree, warm_up
from tests.mutations.sample import HELD_BACK, JAVASCRIPT, SAMPLE, Sampled, write_sample

SEED = 20261128
PYTHON_COUNTS = (340, 85)  # of the sample, and of what is held back
JAVASCRIPT_COUNTS = (60, 15)
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow")
BITWISE = ("BitOr", "BitAnd", "BitXor")
SHIFTS = ("LShift", "RShift")
ORDER = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
IDENTITY = ("Is", "IsNot")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef
SKIPPED_CONDITIONS = ("TYPE_CHECKING", "__name__ == '__main__'")
LOGGERS = ("log", "_log", "logger", "logging")
COMMENT = re.compile(r"^\s*(#|//|/?\*)")

Position = tuple[int, int]
# By line, by family: variants.
Candidates = dict[int, dict[str, list[Callable[[], Sampled | None]]]]


@dataclass(frozen=True)
class Operator:
    """An operator of cosmic-ray, with the family that is drawn first."""

    name: str
    family: str
    change: Any


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.drawing", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    seed = parser.parse_args(arguments).seed
    root = Path.cwd()
    try:
        operators = _operators()
    except ImportError:
        print("Drawing needs cosmic-ray: pip install cosmic-ray==8.7.0", file=sys.stderr)
        return 2
    dice = random.Random(seed)
    python_files = sorted((root / "mha_viz").rglob("*.py"))
    python = {
        (name := path.relative_to(root).as_posix()): _python_candidates(name, path, operators)
        for path in python_files
    }
    script = _javascript_candidates(root)
    with tempfile.TemporaryDirectory(prefix="drawing-") as folder:
        copy_tree(root, tree := Path(folder).resolve() / "tree")
        (home := Path(folder).resolve() / "home").mkdir()
        warm_up(home)
        imports = _Imports(tree)
        draws = {
            "python": _draw(dice, root, python, sum(PYTHON_COUNTS), imports.is_alive),
            "javascript": _draw(dice, root, script, sum(JAVASCRIPT_COUNTS), lambda mutant: True),
        }
    for path, letter, start in ((SAMPLE, "s", 0), (HELD_BACK, "h", 1)):
        chosen: list[Sampled] = []
        for language, counts in (("python", PYTHON_COUNTS), ("javascript", JAVASCRIPT_COUNTS)):
            first = counts[0] if start else 0
            part = draws[language][first : first + counts[start]]
            chosen += sorted(part, key=lambda mutant: (mutant.file, mutant.line, mutant.after))
        write_sample([replace(m, id=f"{letter}{i:03}") for i, m in enumerate(chosen, 1)], path)
        print(f"{path.name}: {len(chosen)} mutants")
    return 0


def _operators() -> list[Operator]:
    """Return the operators of cosmic-ray that are drawn from."""
    plugins = import_module("cosmic_ray.plugins")
    operators = []
    for name in sorted(plugins.operator_names()):
        family, *variant = name.removeprefix("core/").split("_")
        if family in ("VariableInserter", "VariableReplacer", "NoOp"):
            continue
        if family in ("ReplaceBinaryOperator", "ReplaceComparisonOperator"):
            sets = (ARITHMETIC, BITWISE, SHIFTS, ORDER, IDENTITY)
            if not any(set(variant) <= set(group) for group in sets):
                continue
        if family == "ReplaceUnaryOperator" and variant[0] != "Delete":
            continue
        operators.append(Operator(name.removeprefix("core/"), family, plugins.get_operator(name)()))
    return operators


def _python_candidates(name: str, path: Path, operators: Sequence[Operator]) -> Candidates:
    """Return all mutants of a Python file, made when they are drawn."""
    tools, mutating = import_module("cosmic_ray.ast"), import_module("cosmic_ray.mutating")
    code = path.read_text("utf-8")
    nodes = list(tools.ast_nodes(tools.get_ast(code)))
    banned = list(_banned(code))
    candidates: Candidates = defaultdict(lambda: defaultdict(list))

    def variant(operator: Operator, number: int) -> Callable[[], Sampled | None]:
        def make() -> Sampled | None:
            changed = mutating.mutate_code(code, operator.change, number)
            return None if changed is None else _difference(name, operator.name, code, changed)

        return make

    for operator in operators:
        # `mutate_code` visits in the same order and counts the positions in the same way.
        positions = (
            position for node in nodes for position in operator.change.mutation_positions(node)
        )
        for number, (start, end) in enumerate(positions):
            if not any(first <= start and end <= last for first, last in banned):
                candidates[start[0]][operator.family].append(variant(operator, number))
    return candidates


def _banned(code: str) -> Iterator[tuple[Position, Position]]:
    """Generate the ranges in which no mutant is drawn: (line, column), as parso counts."""
    lines = code.splitlines()

    def span(node: Any) -> tuple[Position, Position]:
        first, last = (
            (line, len(lines[line - 1].encode()[:column].decode()))
            for line, column in (
                (node.lineno, node.col_offset),
                (node.end_lineno, node.end_col_offset),
            )
        )
        return first, last

    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield span(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield span(node.returns)
        if isinstance(node, ast.If) and ast.unparse(node.test) in SKIPPED_CONDITIONS:
            yield span(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield span(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] in LOGGERS:
            yield span(node)


def _difference(file: str, operator: str, code: str, changed: str) -> Sampled | None:
    """Return the mutant as whole lines, None where it changes no code."""
    before, after = code.split("\n"), changed.split("\n")
    try:
        if ast.dump(ast.parse(code)) == ast.dump(ast.parse(changed)):
            return None
    except SyntaxError:
        return None
    shortest = min(len(before), len(after))
    start = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    end = 0
    while end < shortest - start and before[-1 - end] == after[-1 - end]:
        end += 1
    while not before[start].strip():  # the blank lines above a removed decorator
        start += 1
    lines = "\n".join(before[start : len(before) - end])
    return Sampled("", file, start + 1, operator, lines, "\n".join(after[start : len(after) - end]))


def _javascript_candidates(root: Path) -> dict[str, Candidates]:
    files = sorted((root / JAVASCRIPT).glob("*/*.js"))
    script = Path(__file__).with_name("javascript.mjs")
    command = ["node", str(script), *(path.relative_to(root).as_posix() for path in files)]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    candidates: dict[str, Candidates] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in json.loads(listed):
        family = row.pop("family")
        mutant = Sampled(id="", **row)
        candidates[mutant.file][mutant.line][family].append(lambda mutant=mutant: mutant)
    return candidates


def _draw(
    dice: random.Random,
    root: Path,
    candidates: dict[str, Candidates],
    n: int,
    is_alive: Callable[[Sampled], bool],
) -> list[Sampled]:
    """Draw different mutants, in the order of the drawing."""
    files = sorted(file for file in candidates if candidates[file])
    weights = [_code_lines(root / file) for file in files]
    chosen: list[Sampled] = []
    tried = set()
    while len(chosen) < n:
        (file,) = dice.choices(files, weights)
        line = dice.choice(sorted(candidates[file]))
        family = dice.choice(sorted(candidates[file][line]))
        variants = candidates[file][line][family]
        number = dice.randrange(len(variants))
        mutant = variants[number]()
        if mutant is None or (key := (file, mutant.line, mutant.after)) in tried:
            continue
        tried.add(key)
        if is_alive(mutant):
            chosen.append(mutant)
    return chosen


def _code_lines(path: Path) -> int:
    """Count the lines of a file that are not empty, a comment, or in a docstring."""
    text = path.read_text("utf-8")
    docstrings = 0
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(node, DOCUMENTED):
                first = body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    docstrings += (first.end_lineno or first.lineno) - first.lineno + 1
    lines = [line for line in text.splitlines() if line.strip() and not COMMENT.match(line)]
    return max(1, len(lines) - docstrings)


class _Imports:
    """Imports of mutated modules, each in a fork."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree

    def is_alive(self, mutant: Sampled) -> bool:
        """Return whether the module of a Python mutant can be imported."""
        path = self._tree / mutant.file
        module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        text = path.read_text("utf-8")
        path.write_text(mutant.mutated(self._tree), "utf-8")
        nothing = os.open(os.devnull, os.O_WRONLY)
        if not (pid := os.fork()):
            code = 1
            try:
                for number in (1, 2):
                    os.dup2(nothing, number)
                os.chdir(self._tree)
                sys.path.insert(0, str(self._tree))
                sys.dont_write_bytecode = True
                import_module(module)
                code = 0
            finally:
                os._exit(code)
        os.close(nothing)
        _, status = os.waitpid(pid, 0)
        path.write_text(text, "utf-8")
        return status == 0


if __name__ == "__main__":
    sys.exit(main())
