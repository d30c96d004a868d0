"""Heads changed or gated in a run: against the same done to a copy, and by hand."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import mha_viz as mv
from mha_viz.engine.attention_function import probing_a_library
from mha_viz.engine.head_changes import averaged_over, head_edits, reference_means
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError, ShapeError
from mha_viz.prediction.logits import logits
from mha_viz.text.encoding import encode_texts
from tests.making.checkpoints import OTHER, TEXT
from tests.making.comparing import close
from tests.making.families import build as build_body
from tests.making.predicting import NAMES, build, gates_of, text_for, without


@pytest.fixture(scope="module", params=NAMES)
def model(request) -> AttentionModel:
    return build(request.param)


# -- ways ----------------------------------------------------------------------------------------


def test_scale_by_one_changes_nothing_and_by_minus_one_turns_round(model):
    plain = model.trace(TEXT)
    for factor in (1.0, -1.0, 2.5):
        scaled = model.trace(TEXT, intervention=Intervention([(0, 1)], "scale", factor))
        assert torch.equal(scaled.z[0, 1], factor * plain.z[0, 1])
        assert torch.equal(scaled.z[0, 0], plain.z[0, 0])
        assert torch.equal(scaled.pattern[0], plain.pattern[0])
        assert torch.equal(scaled.pattern[1], plain.pattern[1]) == (factor == 1)


def test_uniform_is_the_mean_over_the_keys_a_query_may_see(model):
    plain = model.trace(TEXT, keep=("pattern", "z", "value"))
    record = model.trace(TEXT, intervention=Intervention([(0, 1), (0, 4)], "uniform"))
    n = len(plain.tokens)
    flat = torch.ones(n, n)
    flat = flat.tril() if model.causal else flat
    flat = flat / flat.sum(-1, keepdim=True)
    for head in (1, 4):
        close(record.pattern[0, head], flat)
        close(record.z[0, head], flat @ plain.for_query_heads("value", 0)[head])
    assert torch.equal(record.pattern[0, 0], plain.pattern[0, 0])


def test_uniform_and_mean_leave_padding_out(model):
    long, short = (encode_texts(model.reader, text)[0] for text in (OTHER, "the cat"))
    for how in ("uniform", "mean"):
        change = Intervention([(0, 0), (1, 2)], how)
        edits = head_edits(model, intervention=change, texts=(long, None))
        with torch.no_grad():
            both = logits(model.network, [long, short], Probe((), edits=edits))
            alone = logits(model.network, [short], Probe((), edits=edits))
        close(both[1, : len(short.tokens)], alone[0])


def test_mean_over_this_text_by_hand(model):
    plain = model.trace(TEXT)
    record = model.trace(TEXT, intervention=Intervention([(0, 2)], "mean"))
    close(record.z[0, 2], plain.z[0, 2].mean(0, keepdim=True).expand_as(plain.z[0, 2]))
    assert torch.equal(record.z[0, 1], plain.z[0, 1])


def test_mean_over_reference_texts_by_hand(model):
    texts = [OTHER, "the cat"]
    pooled = torch.cat([model.trace(text).z for text in texts], dim=2).mean(2)
    found = reference_means(model, texts)
    close(found.means, pooled)
    assert found.n_texts == 2 and found.n_positions == sum(
        len(model.trace(text).tokens) for text in texts
    )
    for reference in (texts, found):
        record = model.trace(TEXT, intervention=Intervention([(0, 2)], "mean", 0.0, reference))
        close(record.z[0, 2], pooled[0, 2].expand_as(record.z[0, 2]))
    said = averaged_over(Intervention([(0, 2)], "mean", reference=found), 6)
    assert said == f"the {found.n_positions} positions of 2 reference texts"
    assert averaged_over(Intervention([(0, 2)], "mean"), 6) == "the 6 positions of this text"
    assert averaged_over(Intervention([(0, 2)]), 6) == ""


def test_patching_from_another_text_by_hand(model):
    other = "a mat ran on the cat"
    source, plain = model.trace(other), model.trace(TEXT, keep=("pattern", "z", "value"))
    record = model.trace(TEXT, intervention=Intervention([(0, 3)], "patch_z", source=source))
    assert torch.equal(record.z[0, 3], source.z[0, 3])
    assert torch.equal(record.z[0, 2], plain.z[0, 2])
    record = model.trace(TEXT, intervention=Intervention([(0, 3)], "patch_pattern", source=source))
    assert torch.equal(record.pattern[0, 3], source.pattern[0, 3])
    close(record.z[0, 3], source.pattern[0, 3] @ plain.for_query_heads("value", 0)[3])


def test_gates_scale_what_an_intervention_leaves():
    model = build("gpt2")
    gates = torch.full((3, 5), 0.5)
    record = model.trace(TEXT, gates=gates, intervention=Intervention([(0, 1)], "uniform"))
    alone = model.trace(TEXT, intervention=Intervention([(0, 1)], "uniform"))
    close(record.z[0], 0.5 * alone.z[0])


# -- two stacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_the_parts_of_an_encoder_decoder(part):
    model = build_body("t5")
    options = dict(part=part, keep=("pattern", "z", "value"))
    plain = model.trace(TEXT, OTHER, **options)
    record = model.trace(
        TEXT, OTHER, **options, intervention=Intervention([(0, 1)], "uniform", part=part)
    )
    flat = torch.ones_like(plain.pattern[0, 1])
    flat = flat.tril() if part == "decoder" else flat
    flat = flat / flat.sum(-1, keepdim=True)
    close(record.pattern[0, 1], flat)
    close(record.z[0, 1], flat @ plain.value[0, 1])
    assert torch.equal(record.pattern[0, 0], plain.pattern[0, 0])
    gates = torch.ones(plain.n_layers, plain.n_heads)
    gates[1, 2] = 0
    gated = model.trace(TEXT, OTHER, part=part, gates=gates)
    assert not gated.z[1, 2].any() and torch.equal(gated.z[1, 1], plain.z[1, 1])


def test_a_change_in_the_encoder_reaches_the_decoder_as_zeroed_weights_do():
    model = build_body("t5")
    off = Intervention([(0, 1), (1, 3)], part="encoder")
    found = model.trace(TEXT, OTHER, part="cross", intervention=off)
    expected = without(model, (0, 1), (1, 3), part="encoder").trace(TEXT, OTHER, part="cross")
    close(found.pattern, expected.pattern)
    source = model.trace(OTHER, TEXT, part="cross")
    with pytest.raises(ArgumentError, match="this one has 9 and 6 keys"):
        model.trace(
            TEXT, OTHER, intervention=Intervention([(0, 0)], "patch_z", source=source, part="cross")
        )


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(heads=[]), "name at least one"),
        (dict(heads=[(0, 1), (2, 2), (0, 1)]), "L0 H1 more than once"),
        (dict(heads=[(0, 1, 2)]), "pairs of whole numbers"),
        (dict(heads=[(0, 1)], how="delete"), "zero, scale, mean, .*got 'delete'"),
        (dict(heads=[(0, 1)], how="scale", factor=float("nan")), "finite number, got nan"),
        (dict(heads=[(0, 1)], reference=["a"]), 'belong to how="mean"'),
        (dict(heads=[(0, 1)], how="mean", reference=[]), "at least one text"),
        (dict(heads=[(0, 1)], source="a text"), "takes no source"),
        (dict(heads=[(0, 1)], how="patch_z"), "needs source="),
    ],
)
def test_interventions_that_say_nothing_sensible(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Intervention(**arguments)


@pytest.mark.parametrize("head", [(3, 0), (0, -1)])
def test_heads_out_of_range(head):
    model = build("bert")
    with pytest.raises(ArgumentError, match=rf"no L{head[0]} H{head[1]}: layers are 0..2"):
        model.trace(TEXT, intervention=Intervention([head]))


def test_sources_means_and_factors_that_do_not_fit():
    model, other = build("gpt2"), build("bert")

    def patch(source, how="patch_z"):
        mv.ablate(model, TEXT, [(0, 0)], how, source=source)

    with pytest.raises(ArgumentError, match="this one has 6, the source “the cat sat” has 3"):
        patch("the cat sat")
    with pytest.raises(ArgumentError, match="merged to words or lost tokens"):
        patch(model.trace(TEXT).merge_words())
    with pytest.raises(ArgumentError, match="merged to words or lost tokens"):
        patch(model.trace(OTHER).without_first())
    with pytest.raises(NotKeptError, match="does not hold z"):
        patch(model.trace(TEXT, keep=("pattern",)))
    with pytest.raises(ArgumentError, match="does not fit gpt2"):
        patch(mv.load("tiny-gpt2").trace("The cat sat on the mat"))
    with pytest.raises(ArgumentError, match="does not fit gpt2"):  # it would see the future
        patch(other.trace("the cat sat on"), "patch_pattern")
    model, wide = build("gpt2"), mv.load("tiny-gpt2")
    with pytest.raises(ArgumentError, match=r"means of self, .*\(4, 8\)"):
        model.trace(
            TEXT,
            intervention=Intervention([(0, 0)], "mean", reference=reference_means(wide, ["A cat"])),
        )
    with pytest.raises(ArgumentError, match="at least one text"):
        reference_means(model, [])
    model = build_body("t5")
    with pytest.raises(ArgumentError, match="gates are for encoder and the intervention for cross"):
        model.trace(TEXT, gates=torch.ones(2, 5), intervention=Intervention([(0, 0)], part="cross"))
    model = build("gpt2")
    with pytest.raises(ArgumentError, match="smaller factors"):
        mv.predict(model, TEXT, torch.full((3, 5), 3e38))


def test_heads_of_a_family_with_attention_of_its_own_are_not_changed(monkeypatch):
    model = build("gpt2")
    monkeypatch.setattr(model, "backend", "eager")
    assert mv.predict(model, TEXT).entropy > 0
    gates = torch.ones(3, 5)
    for run in (
        lambda: mv.predict(model, TEXT, gates),
        lambda: mv.ablate(model, TEXT, [(0, 0)]),
        lambda: model.trace(TEXT, gates=gates),
        lambda: mv.generate(model, TEXT, gates),
        lambda: reference_means(model, [TEXT]),
    ):
        with pytest.raises(AttentionUnavailableError):
            run()


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
    """Change heads in one of two runs: changes travel with the run, not with its thread."""
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
