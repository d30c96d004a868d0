"""A tested circuit: the part of a behaviour that some heads carry, as a record and a file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from mha_viz.circuits.effects.path_runs import Head
from mha_viz.core.amounts import format_number
from mha_viz.core.arguments import renamed
from mha_viz.core.json_file import JsonKind, is_finite, is_text, is_whole
from mha_viz.core.output_file import write_file
from mha_viz.core.reprs import table_html

KIND, VERSION = "mha_viz circuit", 3
MAX_BYTES = 1_000_000
MAX_NAME = 300
WRITERS = "Faithfulness.save or `mha-viz circuits faithfulness --save`"
FILE = JsonKind(KIND, VERSION, MAX_BYTES, "a circuit", WRITERS)
OUTCOMES = ("held_out", "chosen_on")  # four settings and a standard error each
N_MEASURED = 5
STAND_INS = {
    "mean": "A head that does not act gave its mean over other texts of the task.",
    "corrupt": "A head that does not act gave its output on the corrupted text.",
}
LEAST = 0.1  # logits that all heads must add for a share of them: a factor of 1.1 in the odds


@renamed(whole="all_heads")
class Outcome(NamedTuple):
    """A task's behaviour under four settings of the heads, as means over some texts, in logits."""

    all_heads: float  # all_heads, nothing: with every head as it is, and with none acting
    nothing: float
    alone: float  # with the heads of a choice alone acting
    missing: float  # with every head acting but those of the choice
    error: float  # the standard error of all_heads - nothing over the texts

    @property
    def refusal(self) -> str:
        """The reason why no share of this behaviour is given; "" where it is."""
        size = self.all_heads - self.nothing
        if size > max(LEAST, 2 * self.error):
            return ""
        all_heads, nothing, added = map(format_number, (self.all_heads, self.nothing, size))
        error = format_number(self.error, digits=2)
        return (
            f"The behaviour is {all_heads} logits with all heads and {nothing} with none. So they "
            f"add {added}, with a standard error of {error}: a share of less than "
            f"{LEAST}, or of less than twice that error, would be noise."
        )

    def share(self, value: float) -> float:
        """Compute (value - nothing) / (all_heads - nothing): 1 is all of the behaviour, 0 none.

        NaN where there is a `refusal`.
        """
        size = self.all_heads - self.nothing
        return float("nan") if self.refusal else (value - self.nothing) / size


@dataclass(frozen=True)
class Faithfulness:
    """The part of a task's behaviour that some heads carry.

    The behaviour is the mean of logit(right) - logit(wrong) over the texts.

    Args:
        model, task, seed, n_examples: what was tested; `make_task` draws the texts of its own tasks
            again.
        stand_in: what a head that does not act gave: "mean", over other texts of the task, or
            "corrupt", its output on the corrupted text.
        n_layers, n_heads: how many heads there are.
        layer_numbers: the model's own numbers of the layers with attention; none for 0, 1, 2 ...
        heads: the choice, (layer, head), in the order given.
        held_out: the behaviour on the half of the texts that `find_heads` does not see.
        chosen_on: the behaviour on the other half, which it chooses on.
        random_alone, random_missing: `alone` and `missing` of random sets of as many heads, on the
            held-out texts.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task = mv.make_task(model, "closing", n_examples=6)
    >>> tested = mv.faithfulness(model, task, [(0, 1), (3, 6)], n_random=5)
    >>> tested
    Faithfulness(closing, 2 of 32 heads: ...% alone, ...% without them on held-out texts; ...)
    >>> tested.table().heads.tolist()[:3]
    ['all', 'none', 'the choice alone']
    >>> Faithfulness.from_bytes(tested.to_bytes(), "closing.json") == tested
    True
    """

    model: str
    task: str
    seed: int
    n_examples: int
    stand_in: str
    n_layers: int
    n_heads: int
    heads: tuple[Head, ...]
    held_out: Outcome
    chosen_on: Outcome
    random_alone: tuple[float, ...]
    random_missing: tuple[float, ...]
    layer_numbers: tuple[int, ...] = ()

    @property
    def beside_random(self) -> str:
        """A sentence on how many random sets of as many heads do what the choice does."""
        n = len(self.random_alone)
        carry = sum(value >= self.held_out.alone for value in self.random_alone)
        needed = sum(value <= self.held_out.missing for value in self.random_missing)
        return (
            f"{carry} of {n} random sets of this size carry as much alone; removing {needed} of "
            f"the {n} leaves as little."
        )

    def table(self) -> pd.DataFrame:
        """Make a row per setting: behaviour and share held out, and the share on the other half.

        Columns: heads, behaviour (in its own unit), share and share_chosen_on (1 is all that the
        whole model does). The rows of random sets are their means.
        """
        held_out, chosen_on = self.held_out, self.chosen_on
        names = ("all", "none", "the choice alone", "all but the choice")
        rows = [
            (name, value, held_out.share(value), chosen_on.share(other))
            for name, value, other in zip(names, held_out[:4], chosen_on[:4], strict=True)
        ]
        for name, values in (
            ("as many at random, alone", self.random_alone),
            ("all but as many at random", self.random_missing),
        ):
            mean = sum(values) / len(values)
            rows.append((name, mean, held_out.share(mean), float("nan")))
        return pd.DataFrame(rows, columns=["heads", "behaviour", "share", "share_chosen_on"])

    def save(self, path: str | Path) -> None:
        """Write it as JSON, which `load` opens again; WriteError where it cannot be written."""
        write_file(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the file that `save` writes, in memory."""
        content = asdict(self)
        if not self.layer_numbers:  # as in the files of before
            del content["layer_numbers"]
        return FILE.to_bytes(content)

    @classmethod
    def load(cls, path: str | Path) -> "Faithfulness":
        """Return what `save` wrote; a stranger's file is checked, number by number.

        Raises RecordError: it is none, of another version, or contradicts itself.

        >>> import tempfile, mha_viz as mv
        >>> model = mv.load("tiny-gpt2")
        >>> task = mv.make_task(model, "closing", n_examples=6)
        >>> tested = mv.faithfulness(model, task, [(0, 1), (3, 6)], n_random=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tested.save(f"{folder}/closing.json")
        ...     Faithfulness.load(f"{folder}/closing.json").heads
        ((0, 1), (3, 6))
        """
        return cls.from_bytes(FILE.read(Path(path)), str(path))

    @classmethod
    def from_bytes(cls, raw: bytes, file: str) -> "Faithfulness":
        """Return what a file in memory holds, as `load` does; errors name it `file`."""
        content = _fields({field.name for field in fields(cls)}, raw, file)
        outcomes = {name: Outcome(*content[name]) for name in OUTCOMES}
        return cls(**content | outcomes)

    def __repr__(self) -> str:
        n_all = self.n_layers * self.n_heads
        line = f"Faithfulness({self.task}, {len(self.heads)} of {n_all} heads: "
        if self.held_out.refusal:
            return line + "no share, all heads add too little)"
        shares = [
            f"{outcome.share(outcome.alone):.0%} alone, "
            f"{outcome.share(outcome.missing):.0%} without them"
            for outcome in (self.held_out, self.chosen_on)
        ]
        return f"{line}{shares[0]} on held-out texts; {shares[1]} on those to choose on)"

    def _repr_html_(self) -> str:
        note = self.held_out.refusal or "Share of the behaviour; 1 is all of it."
        instead = STAND_INS[self.stand_in]
        return table_html(repr(self), self.table(), f"{note} {self.beside_random} {instead}")


def _fields(names: set[str], raw: bytes, file: str | Path) -> dict[str, Any]:
    """Decode the fields that `FILE.to_bytes` was given, and check each; else raise RecordError."""
    fields = FILE.from_bytes(names, raw, file, optional="layer_numbers")
    fault = _fault(fields)
    if fault:
        raise FILE.wrong(file, fault)
    fields["layer_numbers"] = tuple(fields.get("layer_numbers", ()))
    fields["heads"] = tuple((layer, head) for layer, head in fields["heads"])
    for name in (*OUTCOMES, "random_alone", "random_missing"):
        fields[name] = tuple(map(float, fields[name]))
    return fields


def _fault(fields: dict[str, Any]) -> str:
    """Say what is wrong with the fields; "" where nothing is."""
    for name in ("model", "task"):
        if not is_text(fields[name], MAX_NAME):
            return f"{name} is not a short text"
    if fields["stand_in"] not in ("mean", "corrupt"):
        return "stand_in is neither “mean” nor “corrupt”"
    for name in ("seed", "n_examples", "n_layers", "n_heads"):
        if not is_whole(fields[name]):
            return f"{name} is not a whole number"
    for name in OUTCOMES:
        values = fields[name]
        if not _all_finite(values) or len(values) != N_MEASURED or values[-1] < 0:
            return f"{name} is not {N_MEASURED} finite numbers, the last of them an error"
    heads, sizes = fields["heads"], (fields["n_layers"], fields["n_heads"])
    layers = fields.get("layer_numbers", range(sizes[0]))
    if "layer_numbers" in fields and not _are_numbers(layers, sizes[0]):
        return "layer_numbers are not an increasing whole number for each layer"
    if not isinstance(heads, list) or not all(_is_head(head, layers, sizes[1]) for head in heads):
        return "heads are not (layer, head) pairs of this model"
    if not 0 < len({tuple(head) for head in heads}) == len(heads) < sizes[0] * sizes[1]:
        return "heads are none, all, or named twice"
    alone, missing = fields["random_alone"], fields["random_missing"]
    if not (_all_finite(alone) and _all_finite(missing) and 2 <= len(alone) == len(missing)):
        return "the random choices are not two lists of as many finite numbers"
    return ""


def _all_finite(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_finite, value))


def _are_numbers(value: Any, n_layers: int) -> bool:
    listed = isinstance(value, list) and len(value) == n_layers
    return listed and all(map(is_whole, value)) and sorted(set(value)) == value


def _is_head(value: Any, layers: Sequence[int], n_heads: int) -> bool:
    pair = isinstance(value, list) and len(value) == 2
    return pair and is_whole(value[0]) and value[0] in layers and is_whole(value[1], 0, n_heads - 1)
