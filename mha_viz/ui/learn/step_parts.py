"""What a step of lab 4 consists of: matrices with named axes, and how one makes another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Axis:
    """One side of a matrix: its name among the choices, what it counts, and a name per place."""

    name: str
    title: str
    names: list[str]
    labels: bool = False  # whether the names are words

    @property
    def size(self) -> int:
        """How many places it has."""
        return len(self.names)


@dataclass(frozen=True)
class Matrix:
    """Values with a title and two axes."""

    title: str
    values: Float[Tensor, "row column"]
    rows: Axis
    columns: Axis
    diverging: bool = True
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class StepTable:
    """One step. With left and right: result = left right + bias; with left alone it is changed
    place by place, and `cell` says how."""

    key: str
    stage: int
    title: str
    statement: str
    formula: str
    result: Matrix
    left: Matrix | None = None
    right: Matrix | None = None
    bias: Float[Tensor, " column"] | None = None
    notes: list[str] = field(default_factory=list)
    cell: Callable[[int, int], str] = lambda row, column: ""

    @property
    def shapes(self) -> str:
        """The sizes of what is multiplied, and of what comes out."""
        result = _size(self.result)
        if self.left is None:
            return result
        if self.right is None:
            return f"{_size(self.left)} → {result}"
        bias = "" if self.bias is None else f" + ({self.result.columns.size})"
        return f"({_size(self.left)}) · ({_size(self.right)}){bias} = **{result}**"


def _size(matrix: Matrix) -> str:
    return f"{matrix.rows.size} × {matrix.columns.size}"
