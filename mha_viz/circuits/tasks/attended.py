"""Kinds of keys that heads attend to where a task is asked, as means over its texts."""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from mha_viz.circuits.patching.patching import Head
from mha_viz.circuits.tasks.task_runs import passes
from mha_viz.circuits.tasks.tasks import Example, Task
from mha_viz.engine.head_changes import check_head
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction.logits import check_predicts, logits

KINDS = ("right answer", "wrong answer", "after a copy", "previous", "first", "itself")


def attended(model: AttentionModel, task: Task, heads: Sequence[Head]) -> pd.DataFrame:
    """Average the weight that heads give to each kind of key where the answer belongs.

    On the held-out texts, from the query at the answer's place:

    - "right answer", "wrong answer": positions of that very token;
    - "after a copy": what followed an earlier copy of the token at hand, as an induction head does
      (of a masked model, of the token before [MASK]);
    - "previous", "first", "itself": by position.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        heads: (layer, head) pairs.

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
    for layer, head in heads:
        check_head(model, layer, head)
    masked = check_predicts(model.network) == "masked"
    rows = []
    with torch.inference_mode():
        for part in passes(task.held_out):
            examples = [task.held_out[i] for i in part.text]
            probe = Probe(("pattern",))
            logits(model.network, part.rows, probe, last=True)
            for number, one in enumerate(examples):
                kinds, seen = _kinds(one, masked)
                for layer, head in heads:
                    row = (
                        probe.kept["pattern"][layer][number, head, one.place, :seen].double().cpu()
                    )
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
