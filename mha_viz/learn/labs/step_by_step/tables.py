"""The steps of lab 4: their matrices with named axes, and how one makes another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.record.record import AttentionRecord
from mha_viz.core.reprs import count
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.step_by_step.numbers import Steps
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
STEPS = TEXTS.labels("menu")
_PROJECTED = {"q": "query", "k": "key", "v": "value"}
# The number of the heading of a step, by its key; all others are COMPUTE, 1.
_STAGES = {"x": 0, "q": 0, "k": 0, "v": 0, "concat": 2, "output": 3, "compare": 3}


@dataclass(frozen=True)
class Axis:
    """One side of a matrix: its name among the choices, what it counts, and a name per place."""

    name: str
    title: str
    names: list[str]
    labels: bool = False  # whether the names are words

    @property
    def size(self) -> int:
        """The number of its places."""
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
    """One step, with its texts under `text` in texts.toml.

    With left and right: result = left right + bias; with left alone it is changed place by place,
    and `cell` says how.
    """

    text: str
    result: Matrix
    left: Matrix | None = None
    right: Matrix | None = None
    bias: Float[Tensor, " column"] | None = None
    notes: list[str] = field(default_factory=list)
    cell: Callable[[int, int], str] = lambda row, column: ""
    formula: str | None = None  # where it depends on the model
    values: dict[str, Any] = field(default_factory=dict)  # of the placeholders in its texts

    @property
    def stage(self) -> int:
        """The number of the heading that it belongs to."""
        return _STAGES.get(self.text.partition("-")[0], 1)

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


def step_table(key: str, found: Steps, record: AttentionRecord, head: int) -> StepTable:
    """Return a step by its key."""
    return _Walk(found, record, head).step(key)


class _Walk:
    def __init__(self, found: Steps, record: AttentionRecord, head: int) -> None:
        self.found, self.record, self.head = found, record, head
        self.queries = Axis("token", "token", list(record.labels), True)
        # With a name of its own: a window into the scores moves both ways.
        self.keys = Axis("key", "key token", list(record.key_labels), True)
        self.model = _numbered("out", "column of d_model", found.output.shape[1])
        self.inner = _numbered("dim", "column of the head", found.query.shape[1])
        self.value = _numbered("dim", "column of the head", found.z.shape[-1])
        names = [f"H{i}·{j}" for i in range(len(found.z)) for j in range(found.z.shape[-1])]
        self.joined = Axis("joined", "column of all heads", names)
        self.dots = Matrix("Q Kᵀ", found.dots, self.queries, self.keys)
        self.scores = Matrix("scores", found.scaled, self.queries, self.keys)
        self.masked = Matrix("masked scores", found.masked, self.queries, self.keys)
        self.weights = Matrix("weights", found.pattern, self.queries, self.keys, False, (0.0, 1.0))
        self.heads = Matrix("all heads", found.joined, self.queries, self.joined)

    def step(self, key: str) -> StepTable:
        if key in _PROJECTED:
            return self._projected(key.upper(), _PROJECTED[key])
        made: StepTable = getattr(self, f"_{key}")()
        return made

    def _read(self, title: str, tokens: Tensor, rows: Axis) -> Matrix:
        return Matrix(title, tokens, rows, _numbered("in", "column of X", tokens.shape[1]))

    def _x(self) -> StepTable:
        notes = [TEXTS("notes.cross")] if self.record.is_cross else []
        X = self._read("X", self.found.seen.X, self.queries)
        return StepTable("x", X, notes=notes, cell=lambda row, column: TEXTS("cells.read"))

    def _projected(self, letter: str, name: str) -> StepTable:
        seen, weights = self.found.seen, self.found.weights
        if letter == "Q":
            tokens = self._read("X", seen.X, self.queries)
        else:
            tokens = self._read("Y" if self.record.is_cross else "X", seen.Y, self.keys)
        columns = self.value if letter == "V" else self.inner
        weight, biases = getattr(weights, f"W_{letter}")[self.head], getattr(weights, f"b_{letter}")
        bias = None if biases is None else biases[self.head]
        made = tokens.values @ weight if bias is None else tokens.values @ weight + bias
        added = "" if bias is None else f" + b^{letter}_i"
        return StepTable(
            letter.lower(),
            Matrix(letter, made, tokens.rows, columns),
            tokens,
            Matrix(f"W_{letter}", weight, tokens.columns, columns),
            bias,
            self._shared(letter) + self._own(name),
            formula=f"{letter}_i = {tokens.title} W^{letter}_i{added}",
        )

    def _shared(self, letter: str) -> list[str]:
        n_heads, n_kv = len(self.found.weights.W_Q), self.found.n_kv_heads
        if letter == "Q" or n_kv == n_heads:
            return []
        own = self.head // (n_heads // n_kv)
        return [TEXTS("notes.shared", n_heads=n_heads, n_kv_heads=n_kv, head=self.head, own=own)]

    def _own(self, name: str) -> list[str]:
        """Note what the matrices alone do not reproduce."""
        if name not in self.found.own:
            return []
        gap = self.found.differences[name][0]
        if name == "pattern":
            return [TEXTS("notes.pattern", gap=gap)]
        return [TEXTS("notes.changed", name=name, gap=gap)]

    def _scores(self) -> StepTable:
        Q = Matrix("Q", self.found.query, self.queries, self.inner)
        K = Matrix("Kᵀ", self.found.key.T, self.inner, self.keys)
        return StepTable("scores", self.dots, Q, K, notes=self._own("query") + self._own("key"))

    def _scale(self) -> StepTable:
        found, d_k = self.found, self.found.query.shape[1]
        is_usual = abs(found.scale - d_k**-0.5) <= 1e-6
        factor = format_number(found.scale)
        divided = rf"\frac{{Q_i K_i^\top}}{{\sqrt{{{d_k}}}}}"
        note = TEXTS("notes.scale", factor=found.scale, d_k=d_k, usual=d_k**-0.5)
        return StepTable(
            "scale" if is_usual else "scale-factor",
            self.scores,
            self.dots,
            notes=[] if is_usual else [note],
            cell=lambda row, column: TEXTS(
                "cells.scaled", score=found.dots[row, column], factor=found.scale
            ),
            formula=divided if is_usual else rf"{factor}\; Q_i K_i^\top",
            values={"factor": factor},
        )

    def _mask(self) -> StepTable:
        hidden = torch.isinf(self.found.masked)
        return StepTable(
            "mask-causal" if self.found.causal else "mask",
            self.masked,
            self.scores,
            notes=[TEXTS("notes.switched")] if self.found.switched else [],
            cell=lambda row, column: TEXTS(
                "cells.hidden" if hidden[row, column] else "cells.stays"
            ),
            values={"n_hidden": int(hidden.sum()), "n": hidden.numel()},
        )

    def _softmax(self) -> StepTable:
        found = self.found

        def cell(row: int, column: int) -> str:
            if "pattern" in found.own:
                return TEXTS("cells.own")
            score = found.masked[row, column]
            if torch.isinf(score):
                return TEXTS("cells.zero")
            return TEXTS("cells.softmax", score=score, keys=count(len(found.key), "key"))

        notes = self._own("pattern")
        return StepTable("softmax", self.weights, self.masked, notes=notes, cell=cell)

    def _values(self) -> StepTable:
        z = Matrix("z", self.found.z[self.head], self.queries, self.value)
        V = Matrix("V", self.found.value, self.keys, self.value)
        return StepTable("values", z, self.weights, V, notes=self._own("value"))

    def _concat(self) -> StepTable:
        n_heads, _, width = self.found.z.shape

        def cell(row: int, column: int) -> str:
            head, place = divmod(column, width)
            return TEXTS("cells.copied", head=head, place=place)

        values = {"width": width, "n_heads": n_heads, "joined": n_heads * width}
        return StepTable("concat", self.heads, cell=cell, values=values)

    def _output(self) -> StepTable:
        output = Matrix("output", self.found.output, self.queries, self.model)
        W_O, bias = Matrix("W_O", self.found.W_O, self.joined, self.model), self.found.weights.b_O
        text = "output" if bias is None else "output-biased"
        return StepTable(text, output, self.heads, W_O, bias)

    def _compare(self) -> StepTable:
        ours, own = self.found.output, self.found.seen.output
        gap, size = self.found.differences["output"]
        if self.found.switched:
            verdict = TEXTS("verdicts.switched")
        elif gap <= 1e-3 * max(size, 1e-6):
            verdict = TEXTS("verdicts.rounding")
        else:
            verdict = TEXTS("verdicts.coarse" if gap <= 0.05 * size else "verdicts.different")
        axes, limits = (self.queries, self.model), (-size, size)
        return StepTable(
            "compare",
            Matrix("difference", ours - own, *axes, limits=limits),
            Matrix("the model’s own", own, *axes, limits=limits),
            cell=lambda row, column: TEXTS(
                "cells.difference", ours=ours[row, column], own=own[row, column]
            ),
            values={"gap": gap, "size": size, "verdict": verdict},
        )


def _numbered(name: str, title: str, size: int) -> Axis:
    return Axis(name, title, [str(i) for i in range(size)])
