"""Kinds of keys where a task is asked, against the weights of transformers' own attention."""

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.tasks.accuracy import KINDS, attended
from mha_viz.errors import ArgumentError

HEADS = [(0, 5), (1, 0), (3, 2)]


def by_hand(model: mv.AttentionModel, task, kind: str, layer: int, head: int) -> list[tuple]:
    """Weight and share of keys of one kind, of each held-out text that has any."""
    model.network.set_attn_implementation("eager")
    found = []
    for one in task.held_out:
        ids = one.clean.input_ids
        with torch.no_grad():
            output = model.network(torch.tensor([ids]), output_attentions=True)
        row = output.attentions[layer][0, head, one.place].tolist()
        seen = one.place + 1 if model.causal else len(ids)
        at_hand = ids[one.place if model.causal else one.place - 1]
        here = one.place if model.causal else one.place - 1
        keys = {
            "right answer": [k for k in range(seen) if ids[k] == one.right],
            "wrong answer": [k for k in range(seen) if ids[k] == one.wrong],
            "after a copy": [
                k
                for k in range(1, seen)
                if ids[k - 1] == at_hand and k - 1 != here and k != one.place
            ],
            "previous": [one.place - 1],
            "first": [0],
            "itself": [one.place],
        }[kind]
        if keys:
            found.append((sum(row[k] for k in keys), len(keys) / seen))
    return found


@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-bert"])
@pytest.mark.parametrize("task", ["induction", "phrase"])
def test_weights_are_those_of_the_network(name: str, task: str) -> None:
    model, plain = mv.load(name, device="cpu"), mv.load(name, device="cpu")
    made = mv.make_task(model, task, n_examples=5)
    table = attended(model, made, HEADS)
    for layer, head in HEADS:
        own = table[(table["layer"] == layer) & (table["head"] == head)].set_index("kind")
        for kind in KINDS:
            found = by_hand(plain, made, kind, layer, head)
            assert (kind in own.index) == bool(found)
            if found:
                weight, uniform = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
                assert own.loc[kind, "n"] == len(found)
                assert own.loc[kind, "weight"] == pytest.approx(weight, abs=1e-5)
                assert own.loc[kind, "uniform"] == pytest.approx(uniform)


def test_a_head_that_is_none_and_a_task_of_another_model_are_refused(gpt, masked) -> None:
    task = mv.make_task(gpt, "induction", n_examples=4)
    with pytest.raises(ArgumentError, match="has no L9 H9"):
        attended(gpt, task, [(9, 9)])
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        attended(masked, task, [(0, 0)])
