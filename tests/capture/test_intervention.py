"""Heads changed in a run: against the same done to a copy of the weights, and by hand."""

import copy
import threading

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.capture.attention_function import IMPLEMENTATION, Probe, register
from mha_viz.capture.head_changes import (
    averaged_over,
    check_gates,
    prepare,
    reference_means,
)
from mha_viz.capture.intervention import HOWS, Intervention
from mha_viz.capture.logits import logits
from mha_viz.capture.model import AttentionModel
from mha_viz.capture.projections import _OUTPUT
from mha_viz.errors import (
    ArgumentError,
    AttentionUnavailableError,
    NotKeptError,
    ShapeError,
)
from tests.capture import checkpoints
from tests.capture.checkpoints import OTHER, TEXT, spread, tokenizer
from tests.capture.families import FAMILIES
from tests.capture.families import build as build_body

register()
NAMES = ("bert", "gpt2", *(name for name in FAMILIES if name != "t5"))


def build(name: str) -> AttentionModel:
    """A tiny model of the family, with its prediction head."""
    if name in ("bert", "gpt2"):
        network = getattr(checkpoints, name)()
        network.set_attn_implementation(IMPLEMENTATION)
    else:
        auto = tf.AutoModelForMaskedLM if name == "distilbert" else tf.AutoModelForCausalLM
        network = auto.from_config(FAMILIES[name][0], attn_implementation=IMPLEMENTATION)
        network = spread(network)
    return AttentionModel(network, tokenizer(pairs=name == "bert"), name=name)


@pytest.fixture(scope="module", params=NAMES)
def model(request) -> AttentionModel:
    return build(request.param)


def text_for(model: AttentionModel) -> str:
    return TEXT if model.causal else TEXT.replace("cat", "[MASK]")


def without(model: AttentionModel, *heads: tuple[int, int], part: str | None = None):
    """A copy of the model in which these heads' rows of W_O are zero."""
    twin = AttentionModel(copy.deepcopy(model.network), model.tokenizer, name="copy")
    for layer, head in heads:
        twin.layers(part)[layer].output()[head].zero_()
    return twin


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def gates_of(model: AttentionModel, *off: tuple[int, int]) -> torch.Tensor:
    gates = torch.ones(model.n_layers, model.n_heads)
    for place in off:
        gates[place] = 0
    return gates


# -- gates ---------------------------------------------------------------------------------------


def test_gates_of_ones_change_nothing_bit_for_bit(model):
    text = text_for(model)
    plain, gated = model.predict(text), model.predict(text, gates_of(model))
    assert torch.equal(plain.log_probs, gated.log_probs)
    assert plain.losses == gated.losses
    assert model.trace(text) == model.trace(text, gates=gates_of(model))


def test_gate_zero_is_a_head_whose_rows_of_W_O_are_zero(model):
    text, off = text_for(model), ((0, 1), (1, 3), (1, 4))
    found = model.predict(text, gates_of(model, *off))
    close(found.log_probs, without(model, *off).predict(text).log_probs)
    assert (found.log_probs - model.predict(text).log_probs).abs().max() > 1e-2
    zeroed = model.ablate(text, off).after
    assert torch.equal(zeroed.log_probs, found.log_probs)


def test_a_layer_whose_heads_are_all_off_leaves_its_bias(model):
    projection = model.layers()[1].find(_OUTPUT)
    seen = []
    hook = projection.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        model.predict(text_for(model), gates_of(model, *((1, h) for h in range(model.n_heads))))
    finally:
        hook.remove()
    bias = torch.zeros(()) if projection.bias is None else projection.bias
    close(seen[0], bias.expand_as(seen[0]), 0.0)


def test_a_batch_of_gate_settings_is_each_one_by_itself(model):
    encoded, _ = model._encode(text_for(model), None)
    settings = torch.rand(4, model.n_layers, model.n_heads, generator=torch.manual_seed(0))
    with torch.no_grad():
        together = logits(model.network, [encoded] * 4, Probe((), gates=settings))
        for gates, found in zip(settings, together, strict=True):
            close(logits(model.network, [encoded], Probe((), gates=gates))[0], found)


def test_gradients_reach_the_gates_through_every_change(model):
    encoded, _ = model._encode(text_for(model), None)
    for how in ("zero", "scale", "mean", "uniform"):
        change = prepare(model, Intervention([(0, 0)], how, factor=0.5), encoded)
        gates = gates_of(model).requires_grad_()
        found = logits(model.network, [encoded], Probe((), gates=gates, intervention=change))
        found.square().sum().backward()
        assert torch.isfinite(gates.grad).all()
        assert bool(gates.grad[0, 0] == 0) == (how == "zero")
        assert (gates.grad[1] != 0).all()


def test_a_record_under_gates_shows_the_scaled_z_and_says_so():
    model = mv.load("tiny-gpt2")
    plain, gated = (model.trace("Once upon a", gates=g) for g in (None, gates_of(model, (0, 2))))
    assert not gated.z[0, 2].any()
    assert torch.equal(gated.z[0, 3], plain.z[0, 3])
    assert not torch.allclose(gated.pattern[1], plain.pattern[1])
    assert gated.notes[-1] == "This run had heads changed: 1 of 32 heads under a gate other than 1."
    assert plain.notes == model.trace("Once upon a", gates=gates_of(model)).notes


@pytest.mark.parametrize(
    ("gates", "error", "message"),
    [
        (torch.ones(5, 3), ShapeError, r"\(3, 5\) for bert, got \(5, 3\)"),
        (torch.ones(1, 3, 5), ShapeError, "must have the shape"),
        ([[1.0] * 5, [1.0] * 4], ArgumentError, "must be numbers"),
        ("off", ArgumentError, "must be numbers"),
        ([[1, 1, float("nan"), 1, 1]] * 3, ArgumentError, "got nan at L0 H2"),
        ([[1.0] * 5, [1, float("inf"), 1, 1, 1], [1.0] * 5], ArgumentError, "got inf at L1 H1"),
    ],
)
def test_gates_that_are_none(gates, error, message):
    model = build("bert")
    with pytest.raises(error, match=message):
        check_gates(model, gates)
    with pytest.raises(error, match=message):
        model.predict(text_for(model), gates)
    with pytest.raises(error, match=message):
        model.trace(TEXT, gates=gates)


def test_gates_may_be_lists_and_whole_numbers():
    model = build("bert")
    found = model.predict(text_for(model), [[1, 0, 1, 1, 1]] * 3)
    expected = model.predict(text_for(model), gates_of(model, (0, 1), (1, 1), (2, 1)))
    assert torch.equal(found.log_probs, expected.log_probs)


def test_factors_that_overflow_are_told():
    model = build("gpt2")
    with pytest.raises(ArgumentError, match="smaller factors"):
        model.predict(TEXT, torch.full((3, 5), 3e38))


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
        close(record.z[0, head], flat @ plain.value[0, head])  # key heads are repeated in it
    assert torch.equal(record.pattern[0, 0], plain.pattern[0, 0])


def test_uniform_and_mean_leave_padding_out(model):
    long, short = (model._encode(text, None)[0] for text in (OTHER, "the cat"))
    for how in ("uniform", "mean"):
        change = prepare(model, Intervention([(0, 0), (1, 2)], how), long)
        with torch.no_grad():
            both = logits(model.network, [long, short], Probe((), intervention=change))
            alone = logits(model.network, [short], Probe((), intervention=change))
        close(both[1, : len(short.tokens)], alone[0], 1e-4)


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


@pytest.mark.parametrize("how", ["patch_z", "patch_pattern"])
def test_patching_from_the_same_text_changes_nothing(model, how):
    text = text_for(model)
    heads = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    for source in (model.trace(text), text):
        found = model.ablate(text, heads, how, source=source)
        close(found.after.log_probs, found.before.log_probs)
        assert found.kl < 1e-8


def test_patching_from_another_text_by_hand(model):
    other = "a mat ran on the cat"
    source, plain = model.trace(other), model.trace(TEXT, keep=("pattern", "z", "value"))
    record = model.trace(TEXT, intervention=Intervention([(0, 3)], "patch_z", source=source))
    assert torch.equal(record.z[0, 3], source.z[0, 3])
    assert torch.equal(record.z[0, 2], plain.z[0, 2])
    record = model.trace(TEXT, intervention=Intervention([(0, 3)], "patch_pattern", source=source))
    assert torch.equal(record.pattern[0, 3], source.pattern[0, 3])
    close(record.z[0, 3], source.pattern[0, 3] @ plain.value[0, 3])


def test_patching_every_head_of_the_last_layer_by_hand():
    """The layer's attention output is then the other run's; only its residual stream is this."""
    model = build("gpt2")
    other, last = "a mat ran on the cat", [(2, head) for head in range(5)]
    source = model.trace(other)
    record = model.trace(TEXT, intervention=Intervention(last, "patch_z", source=source))
    close(record.head_output[2], source.head_output[2])
    assert not torch.allclose(record.head_output[1], source.head_output[1])


def test_gates_scale_what_an_intervention_leaves():
    model = build("gpt2")
    gates = torch.full((3, 5), 0.5)
    record = model.trace(TEXT, gates=gates, intervention=Intervention([(0, 1)], "uniform"))
    alone = model.trace(TEXT, intervention=Intervention([(0, 1)], "uniform"))
    close(record.z[0], 0.5 * alone.z[0])


def test_half_precision():
    model = mv.load("tiny-gpt2", dtype="bfloat16")
    source = model.trace("A cat ran home")
    for how in HOWS:
        found = model.ablate(
            "The dog sat down", [(1, 2)], how, source=source if "_" in how else None
        )
        assert found.kl >= 0


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


def test_gates_of_one_part_and_an_intervention_of_another():
    model = build_body("t5")
    with pytest.raises(ArgumentError, match="gates are for encoder and the intervention for cross"):
        model.trace(TEXT, gates=torch.ones(2, 5), intervention=Intervention([(0, 0)], part="cross"))


# -- several users -------------------------------------------------------------------------------


def test_threads_with_different_gates_on_one_model_do_not_mix():
    model = mv.load("tiny-gpt2")
    text, settings = "The cat sat on the", [[(0, 0), (2, 1)], [(1, 3)], [(2, 7), (3, 3)], []]
    gates = [gates_of(model, *off) for off in settings]
    expected = [
        (model.predict(text, g).log_probs, model.trace(text, gates=g).pattern) for g in gates
    ]
    wrong, barrier = [], threading.Barrier(len(gates))

    def work(i: int) -> None:
        barrier.wait()
        for _ in range(10):
            if not torch.equal(model.predict(text, gates[i]).log_probs, expected[i][0]):
                wrong.append(("predict", i))
            if not torch.equal(model.trace(text, gates=gates[i]).pattern, expected[i][1]):
                wrong.append(("trace", i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(gates))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert torch.equal(model.predict(text).log_probs, expected[3][0])


def test_an_abandoned_run_leaves_nothing_behind():
    model = build("gpt2")
    plain = model.trace(TEXT)

    class Stop(Exception):
        pass

    def stop(layer: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        model.trace(TEXT, gates=torch.zeros(3, 5), on_layer=stop)
    assert model.trace(TEXT) == plain


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(heads=[]), "name at least one"),
        (dict(heads=[(0, 1), (2, 2), (0, 1)]), "L0 H1 more than once"),
        (dict(heads=[(0, 1, 2)]), "pairs of whole numbers"),
        (dict(heads=[(0,)]), "pairs of whole numbers"),
        (dict(heads=[(0, 1)], how="delete"), "zero, scale, mean, .*got 'delete'"),
        (dict(heads=[(0, 1)], how="scale", factor=float("nan")), "finite number, got nan"),
        (dict(heads=[(0, 1)], how="scale", factor=float("inf")), "finite number, got inf"),
        (dict(heads=[(0, 1)], reference=["a"]), 'belong to how="mean"'),
        (dict(heads=[(0, 1)], how="mean", reference=[]), "at least one text"),
        (dict(heads=[(0, 1)], how="mean", reference="a text"), "must be a list"),
        (dict(heads=[(0, 1)], source="a text"), "takes no source"),
        (dict(heads=[(0, 1)], how="patch_z"), "needs source="),
    ],
)
def test_interventions_that_say_nothing_sensible(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Intervention(**arguments)


@pytest.mark.parametrize("head", [(3, 0), (0, 5), (-1, 0), (0, -1)])
def test_heads_out_of_range(head):
    model = build("bert")
    with pytest.raises(ArgumentError, match=rf"no L{head[0]} H{head[1]}: layers are 0..2"):
        model.trace(TEXT, intervention=Intervention([head]))


def test_sources_that_do_not_fit():
    model, other = build("gpt2"), build("bert")

    def patch(source, how="patch_z"):
        model.ablate(TEXT, [(0, 0)], how, source=source)

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


def test_reference_means_that_do_not_fit():
    model, wide = build("gpt2"), mv.load("tiny-gpt2")
    with pytest.raises(ArgumentError, match=r"means of self, .*\(4, 8\)"):
        model.trace(TEXT, intervention=Intervention(
            [(0, 0)], "mean", reference=reference_means(wide, ["A cat"])
        ))  # fmt: skip
    with pytest.raises(ArgumentError, match="at least one text"):
        reference_means(model, [])


def test_a_family_with_attention_of_its_own_says_so():
    config = tf.GPTNeoConfig(
        vocab_size=len(checkpoints.WORDS), hidden_size=20, num_layers=2, num_heads=5,
        attention_types=[[["global", "local"], 1]], max_position_embeddings=31,
    )  # fmt: skip
    network = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    model = AttentionModel(network, tokenizer(pairs=False), name="neo")
    assert model.predict(TEXT).entropy > 0
    for run in (
        lambda: model.predict(TEXT, torch.ones(2, 5)),
        lambda: model.ablate(TEXT, [(0, 0)]),
        lambda: model.trace(TEXT, gates=torch.ones(2, 5)),
        lambda: model.generate(TEXT, torch.ones(2, 5)),
        lambda: reference_means(model, [TEXT]),
    ):
        with pytest.raises(AttentionUnavailableError, match="cannot be switched off here"):
            run()
