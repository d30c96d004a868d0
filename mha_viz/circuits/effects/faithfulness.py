"""Faithfulness of a circuit: heads tested alone and missing, and searched for."""

import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.effects.head_runs import TaskRuns
from mha_viz.circuits.effects.path_runs import Head
from mha_viz.circuits.effects.tested_heads import Faithfulness, Outcome
from mha_viz.circuits.tasks.make_task import task_of
from mha_viz.circuits.tasks.task import Task
from mha_viz.core.arguments import check_index
from mha_viz.core.attention.checks import Number
from mha_viz.core.layer_numbers import head_name, is_counted
from mha_viz.engine.head_changes import head_place
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import OnProgress, Progress

N_RANDOM = 20
ENOUGH = 0.9  # of the behaviour, for a search to stop


def faithfulness(
    model: AttentionModel,
    task: Task | str,
    heads: Sequence[Sequence[int]],
    on_progress: OnProgress | None = None,
    *,
    n_random: int = N_RANDOM,
) -> Faithfulness:
    """Measure how much of a behaviour remains when only some heads act, and when only they do not.

    A head that does not act gives its mean over other texts of the task, position by position: it
    still says what all such texts have in common, and nothing of the one at hand. Pairs of one's
    own have no other texts: there it gives its output on the corrupted text (`stand_in` says which
    of the two it was). MLPs always act.

    The task's texts are in two halves: `find_heads` chooses on the first, and never sees the
    second. Both are measured, each by itself: a choice fits the texts that it was made on, so that
    the share that counts is the one on held-out texts. Random sets are measured there.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        task: of `make_task`, or its name.
        heads: the choice, (layer, head) pairs, layers by the model's own numbers; at least one, and
            not all.
        on_progress: called with how much is done, and of how much; an exception stops the work.
        n_random: random sets of as many heads, 2 or more.

    Returns:
        Faithfulness. It has no shares where all heads together add too little to take one of:
        0.1 logits or less, or less than two standard errors over the texts.

    Raises:
        ArgumentError: no such head or task, a task of another model or of fewer than four pairs,
            and what `make_task` raises.
        AttentionUnavailableError: as `make_task`.

    Source: Wang et al. 2023 (section 4: mean ablation, faithfulness), as the normalised share of
    Marks et al. 2024.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task = mv.make_task(model, "closing", n_examples=6)
    >>> tested = faithfulness(model, task, [(0, 1), (3, 6)], n_random=5)
    >>> tested.held_out.all_heads > tested.held_out.alone, len(tested.random_alone)
    (True, 5)
    """
    task = task_of(model, task)
    chosen = _checked(model, heads)
    check_index("n_random", n_random, 999, first=2)
    generator = random.Random(task.seed)
    every = list(product(model.layer_numbers, range(model.n_heads)))
    choices = [chosen, *(generator.sample(every, len(chosen)) for _ in range(n_random))]
    alone = torch.stack([_only(model, choice) for choice in choices])
    all_on = torch.ones_like(alone[:1])
    four = torch.cat([all_on, ~all_on, alone[:1], ~alone[:1]])
    by_chance = torch.cat([alone[1:], ~alone[1:]])
    n_runs = 4 * len(task.examples) + len(by_chance) * len(task.held_out)
    runs, progress = TaskRuns(model, task), Progress(on_progress, n_runs)
    held_out, chosen_on = (
        _outcome(runs.values(four, examples, progress))
        for examples in (task.held_out, task.to_choose_on)
    )
    random_values = runs.values(by_chance, task.held_out, progress).mean(1).tolist()
    return Faithfulness(
        model=model.name,
        task=task.name,
        seed=task.seed,
        n_examples=len(task.examples),
        stand_in=task.stand_in,
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        layer_numbers=() if is_counted(model.layer_numbers) else model.layer_numbers,
        heads=tuple(chosen),
        held_out=held_out,
        chosen_on=chosen_on,
        random_alone=tuple(random_values[:n_random]),
        random_missing=tuple(random_values[n_random:]),
    )


@dataclass(frozen=True, eq=False)
class FoundHeads:
    """Heads by how much a behaviour loses without each, and what the first ones carry together."""

    order: tuple[Head, ...]  # all heads, the one with the largest effect first
    effect: Float[Tensor, "layer head"]  # the behaviour less what is left of it without that head
    # share[n] is that of the behaviour with only the first n of `order` acting, on the texts that
    # they were chosen on.
    share: tuple[float, ...]
    heads: tuple[Head, ...]  # the fewest first heads that carry the share that was asked for
    # the share that `heads` carry on the other half of the task's texts; NaN where all heads
    # together add too little there.
    held_out: float
    stand_in: str  # what a head that does not act gave, as in `Faithfulness`

    def __repr__(self) -> str:
        n = len(self.heads)
        first = ", ".join(head_name(*head) for head in self.heads[:3])
        return (
            f"FoundHeads({n} of {len(self.order)} carry {self.share[n]:.0%} on the texts they were "
            f"chosen on, {self.held_out:.0%} on held-out ones: {first}, ...)"
        )


def find_heads(
    model: AttentionModel,
    task: Task | str,
    enough: Number = ENOUGH,
    on_progress: OnProgress | None = None,
) -> FoundHeads:
    """Choose heads that carry a behaviour: greedily, by the effect of each.

    Heads are ranked by what the behaviour loses when each alone does not act; from the top, they
    are taken until they carry enough. The first half of the task's texts is all that this sees;
    what the choice carries is measured on the other half, too. It proposes and proves nothing:
    heads that stand in for each other have little effect alone. `faithfulness` tests what it finds.

    Args:
        model: as for `faithfulness`.
        task: as for `faithfulness`.
        enough: the share of the behaviour to carry, in (0, 1].
        on_progress: as for `faithfulness`.

    Returns:
        FoundHeads: all heads by effect (layer, head), in logits; the choice; and its shares.

    Raises:
        ArgumentError: `enough` out of range; heads that add too little to the behaviour for a share
            of it; and what `make_task` raises.

    Source: as of `faithfulness`; the greedy choice is ours.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> choice = find_heads(model, mv.make_task(model, "closing", n_examples=6), enough=0.5)
    >>> len(choice.heads) < len(choice.order) == 32
    True
    """
    if not 0 < enough <= 1:
        raise ArgumentError(f"enough must lie in (0, 1], got {enough}.")
    task, every = task_of(model, task), list(product(model.layer_numbers, range(model.n_heads)))
    n, chosen_from, unseen = len(every), task.to_choose_on, task.held_out
    runs = TaskRuns(model, task)
    progress = Progress(on_progress, (2 * n + 2) * len(chosen_from) + 4 * len(unseen))
    all_on = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    without = torch.stack([~_only(model, [head]) for head in every])
    values = runs.values(torch.cat([all_on, without]), chosen_from, progress).mean(1)
    effect = (values[0] - values[1:]).reshape(model.n_layers, model.n_heads)
    order = [every[i] for i in torch.argsort(effect.flatten(), descending=True, stable=True)]
    first = torch.stack([_only(model, order[:count]) for count in range(n + 1)])
    carried = runs.values(first, chosen_from, progress)
    chosen_on = _outcome(carried[[-1, 0, 0, -1]])
    if chosen_on.refusal:
        raise ArgumentError(
            f"There is no circuit of {model.name} to find for “{task.name}”. {chosen_on.refusal} "
            "Choose another task."
        )
    share = [chosen_on.share(value) for value in carried.mean(1).tolist()]
    n_needed = next(i for i, value in enumerate(share) if value >= enough)
    four = torch.cat([first[[-1, 0]], first[[n_needed]], ~first[[n_needed]]])
    held_out = _outcome(runs.values(four, unseen, progress))
    heads = tuple(order[:n_needed])
    carried_there = held_out.share(held_out.alone)
    return FoundHeads(tuple(order), effect, tuple(share), heads, carried_there, task.stand_in)


def _outcome(values: Float[Tensor, "4 example"]) -> Outcome:
    """Summarise whole, nothing, alone and missing over their texts."""
    size = values[0] - values[1]
    error = float(size.std()) / len(size) ** 0.5
    return Outcome._make([*values.mean(1).tolist(), error])


def _only(model: AttentionModel, heads: Sequence[Head]) -> Bool[Tensor, "layer head"]:
    mask = torch.zeros(model.n_layers, model.n_heads, dtype=torch.bool)
    for layer, head in heads:
        mask[head_place(model, layer, head)] = True
    return mask


def _checked(model: AttentionModel, heads: Sequence[Sequence[int]]) -> list[Head]:
    """Check heads: each once, at least one and not all."""
    try:
        pairs = [(operator.index(layer), operator.index(head)) for layer, head in heads]
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"heads must be (layer, head) pairs such as [(3, 7)], got {heads!r}."
        ) from error
    for layer, head in sorted(pairs):
        head_place(model, layer, head)
    if len(set(pairs)) < len(pairs) or not 0 < len(pairs) < model.n_layers * model.n_heads:
        raise ArgumentError(
            "heads must name at least one head, each once, and not all of them: of all or none "
            f"there is nothing to compare; got {len(pairs)}."
        )
    return pairs
