"""Runs of a task's texts: how often the model is right, what heads look at, and which it needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.patching.experiment import Behaviour
from mha_viz.circuits.patching.patching import Head
from mha_viz.circuits.tasks.tasks import Example, Task
from mha_viz.core.reprs import count
from mha_viz.engine.head_changes import head_place
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.prediction.logits import check_predicts, logits
from mha_viz.prediction.replay import OnProgress, Progress, ReplayingPass, in_passes
from mha_viz.prediction.targets import PredictionTargets
from mha_viz.text.tokens import Encoded

_TOKENS_AT_ONCE = 2048
LEAST = 0.6  # of the pairs; chance is one half
KINDS = ("right answer", "wrong answer", "after a copy", "previous", "first", "itself")


def passes(examples: Sequence[Example], n_settings: int = 1) -> Iterator[PredictionTargets]:
    """Yield the examples in passes, each of texts of one length; `text` counts the examples."""
    targets = targets_of(examples)
    for rows in by_length([example.clean for example in examples]).values():
        yield from in_passes(targets.part(rows), n_settings)


def targets_of(
    examples: Sequence[Example], name: Literal["clean", "corrupt"] = "clean"
) -> PredictionTargets:
    """Return the clean or the corrupt texts with the right answer at its place."""
    return PredictionTargets(
        rows=tuple(getattr(example, name) for example in examples),
        text=tuple(range(len(examples))),
        places=tuple((example.place,) for example in examples),
        answers=tuple((example.right,) for example in examples),
        n_texts=len(examples),
    )


def by_length(texts: Sequence[Encoded]) -> dict[int, list[int]]:
    """Group the numbers of texts by their count of tokens."""
    found: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        found.setdefault(len(text.input_ids), []).append(number)
    return found


class TaskRuns:
    """The behaviour of a model on texts of a task, for any choice of heads.

    A head that is not kept gives its mean z over the task's other texts of the same length, by
    position; of a task without others, its z on the corrupted text.
    """

    def __init__(self, model: AttentionModel, task: Task) -> None:
        self.model = model
        self._means = {
            length: _means(model, [task.others[i] for i in rows])
            for length, rows in by_length(task.others).items()
        }

    def values(
        self,
        kept: Bool[Tensor, "setting layer head"],
        examples: Sequence[Example],
        progress: Progress,
    ) -> Float[Tensor, "setting example"]:
        """Compute logit(right) - logit(wrong) of each example while only the kept heads act."""
        found = torch.zeros(len(kept), len(examples), dtype=torch.float64)
        with torch.inference_mode(False), torch.no_grad():
            for part in passes(examples, len(kept)):
                runs, rows = ReplayingPass(self.model, part), torch.tensor(part.text)
                asked = [examples[row] for row in part.text]
                wrong = torch.tensor([example.wrong for example in asked])
                behaviour = Behaviour("logit_difference", runs.answer, wrong)
                instead = self._instead(asked)
                for layer, chosen in runs.batches(kept.float(), progress.report):
                    change = _Instead(kept[chosen, layer:], instead[layer:])
                    probe = Probe((), progress.report, edits=HeadEdits(change=change))
                    values = behaviour.each(runs.logits(len(chosen), probe, layer))
                    found[chosen[:, None], rows] = values.cpu()
                    progress.add(len(chosen) * len(rows))
        return found

    def _instead(self, examples: Sequence[Example]) -> list[Float[Tensor, "row head query d_head"]]:
        """Return each layer's z in the place of heads that do not act; one row is for all."""
        if self._means:
            return self._means[len(examples[0].clean.input_ids)]
        return z_of(self.model, [example.corrupt for example in examples])


@dataclass
class _Instead:
    """A change of z: in each setting the heads that are not kept give what stands in for them."""

    kept: Bool[Tensor, "setting layer head"]
    instead: list[Float[Tensor, "row head query d_head"]]

    def __call__(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        kept = self.kept[:, None, layer, :, None, None].to(z.device)
        by_setting = z.unflatten(0, (len(kept), -1))
        return torch.where(kept, by_setting, self.instead[layer]).flatten(0, 1), pattern


def z_of(
    model: AttentionModel, texts: Sequence[Encoded]
) -> list[Float[Tensor, "row head query d_head"]]:
    """Return each layer's z on texts of one length."""
    probe = Probe(("z",))
    logits(model.network, texts, probe, last=True)
    return list(probe.kept["z"])


def _means(
    model: AttentionModel, others: Sequence[Encoded]
) -> list[Float[Tensor, "1 head query d_head"]]:
    """Average each head's z over texts of one length, by position."""
    size = max(1, _TOKENS_AT_ONCE // len(others[0].input_ids))
    total: list[Tensor] = []
    with torch.inference_mode(False), torch.no_grad():
        for start in range(0, len(others), size):
            found = z_of(model, others[start : start + size])
            sums = [layer.double().sum(0, keepdim=True) for layer in found]
            total = [a + b for a, b in zip(total, sums, strict=True)] if total else sums
    return [(layer / len(others)).to(model.dtype) for layer in total]


@dataclass(frozen=True, eq=False)
class TaskAccuracy:
    """Accuracy of a model on a task, pair by pair."""

    model: str  # model, task: names of what was measured
    task: str
    difference: Float[Tensor, " example"]  # logit(right) - logit(wrong) on each clean text, logits
    first: Bool[Tensor, " example"]  # whether the right answer is the model's first choice there

    @property
    def n_preferred(self) -> int:
        """The number of pairs in which the right answer has the higher logit of the two."""
        return int((self.difference > 0).sum())

    @property
    def share(self) -> float:
        """The share of pairs in which the model prefers the right answer; 0.5 is chance."""
        return self.n_preferred / len(self.difference)

    @property
    def sentence(self) -> str:
        """A sentence on both counts, and one more where there is nothing to explain."""
        n = len(self.difference)
        found = (
            f"{self.model} prefers the right answer in {self.n_preferred} of {count(n, 'pair')}; "
            f"it is the first choice of all tokens in {int(self.first.sum())}."
        )
        if self.share >= LEAST:
            return found
        return (
            f"{found} Chance is one half, and below {LEAST:.0%} there is nothing to explain: the "
            "model does not do this task."
        )

    def __repr__(self) -> str:
        return f"TaskAccuracy({self.task}: {self.sentence})"


def task_accuracy(
    model: AttentionModel, task: Task, on_progress: OnProgress | None = None
) -> TaskAccuracy:
    """Measure in how many pairs of a task the model prefers the right answer to the wrong one.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        on_progress: called with how much is done, and of how much; an exception stops the work.

    Returns:
        TaskAccuracy: for each pair the difference of logits and whether the right answer is the
        first choice, and the shares of all pairs, in [0, 1].

    Raises:
        ArgumentError: a task of another model.

    Source: the difference of logits of Wang et al. 2023.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task_accuracy(model, mv.make_task(model, "closing", n_examples=6)).share > 0.6
    True
    """
    task.check_model(model)
    difference = torch.zeros(len(task.examples), dtype=torch.float64)
    first = torch.zeros(len(task.examples), dtype=torch.bool)
    progress = Progress(on_progress, len(task.examples))
    with torch.inference_mode(False), torch.no_grad():
        for part in passes(task.examples):
            runs, rows = ReplayingPass(model, part), torch.arange(len(part.text))
            logits = runs.logits(1, Probe((), progress.report))[0].cpu()
            right, wrong = (
                torch.tensor([getattr(task.examples[i], name) for i in part.text])
                for name in ("right", "wrong")
            )
            at = torch.tensor(part.text)
            difference[at] = logits[rows, right].double() - logits[rows, wrong].double()
            first[at] = logits.argmax(-1) == right
            progress.add(len(part.text))
    return TaskAccuracy(model.name, task.name, difference, first)


def attended(model: AttentionModel, task: Task, heads: Sequence[Head]) -> pd.DataFrame:
    """Average the weight that heads give to each kind of key where the answer belongs.

    On the held-out texts, from the query at the answer's place:

    - "right answer", "wrong answer": positions of that very token;
    - "after a copy": what followed an earlier copy of the token at hand, as an induction head does
      (of a masked model, of the token before [MASK]);
    - "previous", "first", "itself": by position.

    Returns:
        A row per head and kind: layer, head, kind, weight, uniform, n. `uniform` is the share of
        the keys that the query may see: what a head has that spreads its weight evenly. n counts
        the texts that have such a key; the means are over these.

    Raises:
        ArgumentError: no such head, a task of another model.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> found = attended(model, mv.make_task(model, "induction", n_examples=8), [(1, 2)])
    >>> round(float(found.set_index("kind").weight["after a copy"]), 1)
    0.9
    """
    task.check_model(model)
    places = [head_place(model, layer, head) for layer, head in heads]
    masked = check_predicts(model.network) == "masked"
    rows = []
    with torch.inference_mode():
        for part in passes(task.held_out):
            examples = [task.held_out[i] for i in part.text]
            probe = Probe(("pattern",))
            logits(model.network, part.rows, probe, last=True)
            for number, one in enumerate(examples):
                kinds, seen = _kinds(one, masked)
                for (layer, head), (at, _) in zip(heads, places, strict=True):
                    weights = probe.kept["pattern"][at][number, head, one.place, :seen]
                    row = weights.double().cpu()
                    rows += [
                        (layer, head, kind, float(row[keys].sum()), float(keys.sum()) / seen)
                        for kind, keys in kinds.items()
                        if keys.any()
                    ]
    table = pd.DataFrame(rows, columns=["layer", "head", "kind", "weight", "uniform"])
    groups = table.groupby(["layer", "head", "kind"], sort=False)
    return groups.mean().assign(n=groups.size()).reset_index()


def _kinds(one: Example, masked: bool) -> tuple[dict[str, Bool[Tensor, " key"]], int]:
    """Mark the keys of each kind that the query may see, and count all that it may see."""
    seen = len(one.clean.input_ids) if masked else one.place + 1
    ids, key = torch.tensor(one.clean.input_ids[:seen]), torch.arange(seen)
    at_hand = one.place - masked
    copies = ids == ids[at_hand]
    copies[at_hand] = False
    after = copies.roll(1) & (key > 0) & (key != one.place)
    marks = (ids == one.right, ids == one.wrong, after, key == one.place - 1, key == 0)
    kinds = dict(zip(KINDS, (*marks, key == one.place), strict=True))
    return kinds, seen
