"""What each step of lab 4 shows: its statement, its formula, and the matrices of its product."""

from __future__ import annotations

import torch

from mha_viz.core.record import AttentionRecord
from mha_viz.core.showing import count
from mha_viz.labs.step_by_step import Steps, project
from mha_viz.ui.learn.step_parts import Axis, Matrix, StepTable
from mha_viz.web.theme import format_number

STEPS = {
    "x": "X",
    "q": "Q",
    "k": "K",
    "v": "V",
    "scores": "Q Kᵀ",
    "scale": "scale",
    "mask": "mask",
    "softmax": "softmax",
    "values": "weights × V",
    "concat": "concatenate",
    "output": "W_O",
    "compare": "compare",
}


def step_table(key: str, found: Steps, record: AttentionRecord, head: int) -> StepTable:
    """A step by its key."""
    return _Walk(found, record, head).step(key)


class _Walk:
    def __init__(self, found: Steps, record: AttentionRecord, head: int) -> None:
        self.found, self.record, self.head = found, record, head
        n_heads, width = found.z.shape[0], found.z.shape[-1]
        self.queries = Axis("token", "token", list(record.labels), True)
        # With a name of its own: a window into the scores moves both ways.
        self.keys = Axis("key", "key token", list(record.key_labels), True)
        self.model = _numbered("out", "column of d_model", found.output.shape[1])
        self.input = _numbered("in", "column of X", found.seen.X.shape[1])
        self.read = _numbered("in", "column of X", found.seen.Y.shape[1])
        self.inner = _numbered("dim", "column of the head", found.query.shape[1])
        self.value = _numbered("dim", "column of the head", width)
        names = [f"H{i}·{j}" for i in range(n_heads) for j in range(width)]
        self.joined = Axis("joined", "column of all heads", names)

    def step(self, key: str) -> StepTable:
        made: StepTable = getattr(self, f"_{key}")()
        return made

    def _x(self) -> StepTable:
        return StepTable(
            "x",
            0,
            "The tokens as this layer reads them",
            "A row for each token, d_model numbers wide: embeddings in the first layer, later what "
            "the layers before have added, after the norm where one stands before attention.",
            "",
            Matrix("X", self.found.seen.X, self.queries, self.input),
            notes=self._two_texts(),
            cell=lambda row, column: "read by the model:",
        )

    def _two_texts(self) -> list[str]:
        if not self.record.is_cross:
            return []
        return [
            "Cross attention: queries come from the decoder’s tokens, keys and values from the "
            "encoder’s output."
        ]

    def _q(self) -> StepTable:
        return self._projected(
            "q",
            "Q",
            "query",
            "What each token asks for. The same matrix for every token turns "
            "its d_model numbers into the d_k numbers of this head’s query.",
        )

    def _k(self) -> StepTable:
        return self._projected(
            "k",
            "K",
            "key",
            "What each token can be found by. As wide as the queries, because "
            "the two will be compared.",
        )

    def _v(self) -> StepTable:
        return self._projected(
            "v",
            "V",
            "value",
            "What each token hands over to whoever looks at it.",
        )

    def _projected(self, key: str, letter: str, name: str, statement: str) -> StepTable:
        weights, read = self.found.weights, letter != "Q"
        tokens = self.found.seen.Y if read else self.found.seen.X
        rows = self.keys if read else self.queries
        inner, columns = (
            (self.read if read else self.input),
            (self.value if letter == "V" else self.inner),
        )
        weight = getattr(weights, f"W_{letter}")[self.head]
        all_biases = getattr(weights, f"b_{letter}")
        bias = None if all_biases is None else all_biases[self.head]
        made = project(tokens, weight[None], None if bias is None else bias[None])[0]
        source = "Y" if read and self.record.is_cross else "X"
        added = "" if bias is None else f" + b^{letter}_i"
        return StepTable(
            key,
            0,
            f"{letter}: each token’s {name}",
            statement,
            f"{letter}_i = {source} W^{letter}_i{added}",
            Matrix(f"{letter}", made, rows, columns),
            Matrix(source, tokens, rows, inner),
            Matrix(f"W_{letter}", weight, inner, columns),
            bias,
            self._shared(letter) + self._own(name),
        )

    def _shared(self, letter: str) -> list[str]:
        n_heads, n_kv = len(self.found.weights.W_Q), self.found.n_kv_heads
        if letter == "Q" or n_kv == n_heads:
            return []
        group = n_heads // n_kv
        return [
            f"{n_heads} query heads share {n_kv} key and value heads: H{self.head} uses number "
            f"{self.head // group}."
        ]

    def _own(self, name: str) -> list[str]:
        """What the matrices alone do not reproduce, in plain words."""
        if name not in self.found.own:
            return []
        gap = f"{self.found.differences[name][0]:.2g}"
        if name == "pattern":
            return [
                f"This model adds something to its scores that is in none of these matrices (a "
                f"position bias, a narrower mask or a soft cap; difference {gap}). From here "
                "on, the model’s own weights are used."
            ]
        return [
            f"After the matrix this model changes its {name} once more (rotary positions, a "
            f"norm or a scale; difference {gap}). The next steps take its own."
        ]

    def _scores(self) -> StepTable:
        found = self.found
        changed = [note for name in ("query", "key") for note in self._own(name)]
        return StepTable(
            "scores",
            1,
            "Every query against every key",
            "One number for each pair of tokens: large where query and key point the same way.",
            r"Q_i K_i^\top",
            Matrix("Q Kᵀ", found.dots, self.queries, self.keys),
            Matrix("Q", found.query, self.queries, self.inner),
            Matrix("Kᵀ", found.key.T, self.inner, self.keys),
            notes=changed,
        )

    def _scale(self) -> StepTable:
        found, d_k = self.found, self.found.query.shape[1]
        usual = abs(found.scale - d_k**-0.5) <= 1e-6
        factor = format_number(found.scale)
        note = (
            []
            if usual
            else [
                f"This model does not divide by √d_k here: its factor is {factor}, and 1/√{d_k} "
                f"would be {format_number(d_k**-0.5)}."
            ]
        )
        return StepTable(
            "scale",
            1,
            "Divide by √d_k" if usual else f"Times {factor}",
            "Sums of more products are larger: the factor keeps softmax from becoming a hard "
            "choice, however wide the head is (lab 1).",
            rf"\frac{{Q_i K_i^\top}}{{\sqrt{{{d_k}}}}}" if usual else rf"{factor}\; Q_i K_i^\top",
            Matrix("scores", found.scaled, self.queries, self.keys),
            Matrix("Q Kᵀ", found.dots, self.queries, self.keys),
            notes=note,
            cell=lambda row, column: f"{format_number(found.dots[row, column])} × {factor} =",
        )

    def _mask(self) -> StepTable:
        found = self.found
        hidden = int(torch.isinf(found.masked).sum())
        statement = (
            "No token may see what comes after it: the model learns to predict just that. Scores "
            f"above the diagonal become −∞, {hidden} of {found.masked.numel()} here."
            if found.causal
            else "Every token may see every other one here: nothing is masked."
        )
        notes = ["This is not the model’s own mask: you have switched it."] * found.switched
        return StepTable(
            "mask",
            1,
            "The mask",
            statement,
            r"s_{qk} = -\infty \quad \text{for } k > q" if found.causal else "",
            Matrix("masked scores", found.masked, self.queries, self.keys),
            Matrix("scores", found.scaled, self.queries, self.keys),
            notes=notes,
            cell=lambda row, column: (
                "may not be seen:" if torch.isinf(found.masked[row, column]) else "stays"
            ),
        )

    def _softmax(self) -> StepTable:
        found = self.found

        def cell(row: int, column: int) -> str:
            if "pattern" in found.own:
                return "the model’s own:"
            score = format_number(found.masked[row, column])
            if torch.isinf(found.masked[row, column]):
                return "exp(−∞) is"
            keys = count(len(found.key), "key")
            return f"exp({score}) over the sum of exp(score) in its row of {keys} ="

        return StepTable(
            "softmax",
            1,
            "Softmax: weights that sum to 1",
            "Row by row: exp makes every score positive, dividing by the row’s sum makes them "
            "shares of 1. These are the attention weights that every picture of a head shows.",
            r"A_i = \operatorname{softmax}(\text{masked scores})",
            Matrix("weights", found.pattern, self.queries, self.keys, False, (0.0, 1.0)),
            Matrix("masked scores", found.masked, self.queries, self.keys),
            notes=self._own("pattern"),
            cell=cell,
        )

    def _values(self) -> StepTable:
        found = self.found
        return StepTable(
            "values",
            1,
            "The weighted mean of the values",
            "Each query takes as much of every token’s value as its weight says.",
            r"z_i = A_i V_i",
            Matrix("z", found.z[self.head], self.queries, self.value),
            Matrix("weights", found.pattern, self.queries, self.keys, False, (0.0, 1.0)),
            Matrix("V", found.value, self.keys, self.value),
            notes=self._own("value"),
        )

    def _concat(self) -> StepTable:
        found = self.found
        n_heads, _, width = found.z.shape

        def cell(row: int, column: int) -> str:
            i, j = divmod(column, width)
            return f"nothing is computed, it is head {i}’s number {j}:"

        return StepTable(
            "concat",
            2,
            "All heads side by side",
            f"Every head has done the same with its own matrices. Per token, their {width} numbers "
            f"are put in a row: {n_heads} × {width} = {n_heads * width}.",
            r"[z_1 \; z_2 \;\dots\; z_h]",
            Matrix("all heads", found.joined, self.queries, self.joined),
            cell=cell,
        )

    def _output(self) -> StepTable:
        found, bias = self.found, self.found.weights.b_O
        return StepTable(
            "output",
            3,
            "W_O mixes the heads",
            "Up to here, no head knew what the others did. W_O turns their row of numbers into "
            "what is added to the token.",
            r"\text{output} = [z_1 \;\dots\; z_h]\, W^O" + ("" if bias is None else " + b^O"),
            Matrix("output", found.output, self.queries, self.model),
            Matrix("all heads", found.joined, self.queries, self.joined),
            Matrix("W_O", found.W_O, self.joined, self.model),
            bias,
        )

    def _compare(self) -> StepTable:
        found = self.found
        gap, size = found.differences["output"]
        close = gap <= 1e-3 * max(size, 1e-6)
        if found.switched:
            judged = "That is what the mask does: the model ran with its own, you switched it."
        elif close:
            judged = "That is rounding: the numbers that you walked through are those of the model."
        elif gap <= 0.05 * size:
            judged = "That is what coarser numbers than float32 round, where the model uses them."
        else:
            judged = "That is more than rounding: see below which step differs."
        return StepTable(
            "compare",
            3,
            "Beside the model’s own output",
            f"The model’s own attention output was caught while it ran. Largest difference: "
            f"**{gap:.2g}**, where the largest number is {format_number(size)}. {judged}",
            r"\max \left| \text{ours} - \text{the model’s} \right|",
            Matrix(
                "difference",
                found.output - found.seen.output,
                self.queries,
                self.model,
                limits=(-size, size),
            ),
            Matrix(
                "the model’s own", found.seen.output, self.queries, self.model, limits=(-size, size)
            ),
            cell=lambda row, column: (
                f"{format_number(found.output[row, column])} − "
                f"{format_number(found.seen.output[row, column])} ="
            ),
        )


def _numbered(name: str, title: str, size: int) -> Axis:
    return Axis(name, title, [str(i) for i in range(size)])
