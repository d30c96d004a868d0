"""Gates on heads: against a copy of the weights in which the same heads are zero."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import mha_viz as mv
from mha_viz.engine.attention_function import probing_a_library
from mha_viz.engine.head_changes import head_edits
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.errors import ArgumentError, ShapeError
from tests.making.checkpoints import TEXT
from tests.making.comparing import close
from tests.making.predicting import NAMES, build, gates_of, text_for, without


@pytest.fixture(scope="module", params=NAMES)
def model(request) -> AttentionModel:
    return build(request.param)


# -- gates ---------------------------------------------------------------------------------------


def test_gates_of_ones_change_nothing_bit_for_bit(model):
    text = text_for(model)
    plain, gated = mv.predict(model, text), mv.predict(model, text, gates_of(model))
    assert torch.equal(plain.log_probs, gated.log_probs)
    assert plain.losses == gated.losses
    assert model.trace(text) == model.trace(text, gates=gates_of(model))


def test_gate_zero_is_a_head_whose_rows_of_W_O_are_zero(model):
    text, off = text_for(model), ((0, 1), (1, 3), (1, 4))
    found = mv.predict(model, text, gates_of(model, *off))
    close(found.log_probs, mv.predict(without(model, *off), text).log_probs)
    assert (found.log_probs - mv.predict(model, text).log_probs).abs().max() > 1e-2
    zeroed = mv.ablate(model, text, off).after
    assert torch.equal(zeroed.log_probs, found.log_probs)


@pytest.mark.parametrize(
    ("gates", "error", "message"),
    [
        (torch.ones(5, 3), ShapeError, r"\(3, 5\) for bert, got \(5, 3\)"),
        ([[1.0] * 5, [1.0] * 4], ArgumentError, "must be numbers"),
        ("off", ArgumentError, "must be numbers"),
        ([[1, 1, float("nan"), 1, 1]] * 3, ArgumentError, "got nan at L0 H2"),
    ],
)
def test_gates_that_are_none(gates, error, message):
    model = build("bert")
    with pytest.raises(error, match=message):
        head_edits(model, gates)
    with pytest.raises(error, match=message):
        mv.predict(model, text_for(model), gates)
    with pytest.raises(error, match=message):
        model.trace(TEXT, gates=gates)


def test_factors_that_overflow_are_told():
    model = build("gpt2")
    with pytest.raises(ArgumentError, match="smaller factors"):
        mv.predict(model, TEXT, torch.full((3, 5), 3e38))


# -- several users -------------------------------------------------------------------------------


def test_threads_with_different_gates_on_one_model_do_not_mix():
    model = mv.load("tiny-gpt2")
    text, settings = "The cat sat on the", [[(0, 0), (2, 1)], [(1, 3)], [(2, 7), (3, 3)], []]
    gates = [gates_of(model, *off) for off in settings]
    expected = [
        (mv.predict(model, text, g).log_probs, model.trace(text, gates=g).pattern) for g in gates
    ]
    wrong, barrier = [], threading.Barrier(len(gates))  # all at once

    def work(i: int) -> None:
        barrier.wait()
        for _ in range(10):
            if not torch.equal(mv.predict(model, text, gates[i]).log_probs, expected[i][0]):
                wrong.append(("predict", i))
            if not torch.equal(model.trace(text, gates=gates[i]).pattern, expected[i][1]):
                wrong.append(("trace", i))

    with ThreadPoolExecutor(len(gates)) as pool:
        list(pool.map(work, range(len(gates))))  # what one raises is raised here
    assert wrong == []
    assert torch.equal(mv.predict(model, text).log_probs, expected[3][0])


def test_a_run_within_a_run_has_its_own_heads():
    """What happens to heads travels with its run, not with the thread that runs it."""
    model = build("gpt2")
    plain, said, inner = model.trace(TEXT), mv.predict(model, TEXT).log_probs, []
    gated = model.trace(TEXT, gates=gates_of(model, (0, 1), (2, 3)))

    def run_others(layer: int) -> None:
        inner.append((model.trace(TEXT), mv.predict(model, TEXT).log_probs))

    outer = model.trace(TEXT, gates=gates_of(model, (0, 1), (2, 3)), on_layer=run_others)
    assert len(inner) == model.n_layers
    assert all(record == plain and torch.equal(logs, said) for record, logs in inner)
    assert outer == gated != plain


def test_a_probe_lent_to_a_library_is_not_that_of_our_own_runs():
    model = build("gpt2")
    plain = model.trace(TEXT)
    lent = Probe((), n_layers=model.n_layers, edits=HeadEdits(torch.zeros(3, 5)))
    ids = torch.tensor([plain.tokens[0].id])[None]
    with torch.no_grad():
        before = model.network(ids).logits
        with probing_a_library(lent):
            assert model.trace(TEXT) == plain
            gated = [model.network(ids).logits for _ in range(2)]  # counts its layers anew
        after = model.network(ids).logits
    assert torch.equal(gated[0], gated[1]) and not torch.allclose(gated[0], before)
    assert torch.equal(before, after)
