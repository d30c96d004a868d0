"""Path patching: against hooks on the eager model, by what must be equal, and its estimates."""

import copy

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.effects.experiment import patching_experiment
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.engine.head_changes import reference_means
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, MhaVizError, TextError
from mha_viz.prediction import replay
from tests.circuits.plain_paths import PlainPaths
from tests.engine.test_families import CAUSAL, FALLBACK, SINGLE, small_tokenizer
from tests.making.checkpoints import spread

FAMILIES = [name for name in SINGLE if name not in FALLBACK]
CLEAN, CORRUPT = "the cat sat on a mat", "the cat ran on the mat"
PATHS = [
    ((0, 3), (1, 2, "query")),
    ((0, 3), (2, 4, "key")),
    ((1, 0), (2, 1, "value")),
    ((0, 1), (2, 0, "query")),
    ((1, 4), "logits"),
]


def predicting(name: str, double: bool = False) -> AttentionModel:
    """A tiny random network of that family with its prediction head."""
    auto = tf.AutoModelForCausalLM if name in CAUSAL else tf.AutoModelForMaskedLM
    network = auto.from_config(copy.deepcopy(SINGLE[name]))
    network = (spread(network).double() if double else spread(network)).requires_grad_(False)
    for part, parameter in network.named_parameters():
        if part.endswith("weight") and parameter.ndim == 1:
            parameter.add_(1)  # norms that pass on what came, so that heads hear each other
    return AttentionModel(network, small_tokenizer(template=name not in CAUSAL), name=name)


def asked(model: AttentionModel) -> dict:
    """Where, and about which tokens; masked models at a token in the middle."""
    return dict(target="mat", against="cat", position=None if model.causal else 4)


def ids_of(model: AttentionModel, text: str, position: int | None) -> list[int]:
    ids = model.tokenizer(text)["input_ids"]
    if position is not None:
        ids[position] = model.tokenizer.mask_token_id
    return ids


# -- against hooks on transformers' own attention --------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
@pytest.mark.parametrize(("sender", "receiver"), PATHS)
def test_effects_are_those_of_hooks_on_the_eager_model(name, sender, receiver):
    tolerance = 1e-5 if name == "llama" else 1e-10  # it takes its norms in float32
    model = predicting(name, double=True)
    options = asked(model)
    found = path_effect(model, CLEAN, CORRUPT, sender, receiver, **options)
    plain, place = PlainPaths(model.network), options["position"]
    clean, corrupt = (ids_of(model, text, place) for text in (CLEAN, CORRUPT))
    layer, head = sender
    d_head = plain.d_head
    z = plain.noted(corrupt)[0][layer][..., head * d_head : (head + 1) * d_head]
    target, against = model.tokenizer.convert_tokens_to_ids(["mat", "cat"])
    at = -1 if place is None else place

    def difference(logits):
        return float(logits[at, target] - logits[at, against])

    before = difference(plain.run(clean))
    assert abs(found.clean - before) <= tolerance
    for way in ("direct", "total"):
        effect, path = getattr(found, way), (clean, z, sender, receiver, way == "direct")
        assert abs(effect - (difference(plain.effect_logits(*path)) - before)) <= tolerance
        assert abs(effect) > 1e-5  # something happened
        expected = plain.estimate(*path, lambda logits: logits[at, target] - logits[at, against])
        assert abs(getattr(found, f"{way}_estimate") - expected) <= tolerance
    assert found.direct != found.total


@pytest.mark.parametrize("metric", ["logit", "loss", "kl"])
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_other_behaviours_by_their_definition(name, metric):
    model = predicting(name, double=True)
    options = asked(model) | dict(against=None)
    if metric == "kl":
        options["target"] = None
    sender, receiver = (0, 3), (2, 4, "key")
    found = path_effect(model, CLEAN, CORRUPT, sender, receiver, metric, **options)
    plain, place = PlainPaths(model.network), options["position"]
    clean, corrupt = (ids_of(model, text, place) for text in (CLEAN, CORRUPT))
    z = plain.noted(corrupt)[0][0][..., 3 * plain.d_head : 4 * plain.d_head]
    at = -1 if place is None else place
    target = model.tokenizer.convert_tokens_to_ids("mat")
    before = plain.run(clean)[at].double()
    after = plain.effect_logits(clean, z, sender, receiver, True)[at].double()
    p, q = before.log_softmax(-1), after.log_softmax(-1)
    expected = {
        "logit": after[target] - before[target],
        "loss": p[target] - q[target],
        "kl": (p.exp() * (p - q)).sum(),
    }[metric]
    assert abs(found.direct - float(expected)) <= 1e-10 and abs(expected) > 1e-6
    assert (metric == "kl") == (found.direct_estimate != found.direct_estimate)
    assert metric != "kl" or abs(found.clean) < 1e-12


def test_the_loss_of_a_causal_text_is_that_of_all_its_tokens():
    model, path = predicting("gpt2"), ((0, 3), (2, 4, "value"))
    found, plain = path_effect(model, CLEAN, CORRUPT, *path, "loss"), PlainPaths(model.network)
    clean, corrupt = (ids_of(model, text, None) for text in (CLEAN, CORRUPT))
    z = plain.noted(corrupt)[0][0][..., 3 * plain.d_head : 4 * plain.d_head]
    before, after = (
        float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(clean[1:])))
        for logits in (plain.run(clean), plain.effect_logits(clean, z, *path, True))
    )
    assert abs(found.clean - before) <= 1e-5
    assert abs(found.direct - (after - before)) <= 1e-5 and found.direct != 0


# -- every family, by what must be equal -----------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_direct_path_passes_by_whatever_stands_between(name):
    """Nothing stands between in the last layers of a chain but one MLP, or none at all."""
    model = predicting(name)
    parallel = name == "gpt_neox"  # its MLP reads what attention reads, not what it writes
    for path in (((model.n_layers - 1, 1), "logits"), ((0, 1), (1, 2, "key"))):
        found = path_effect(model, CLEAN, CORRUPT, *path, **asked(model))
        assert (abs(found.direct - found.total) <= 1e-5) == parallel


@pytest.mark.parametrize("name", FAMILIES)
def test_at_the_logits_the_total_is_plain_patching(name):
    model = predicting(name)
    options = asked(model)
    found = path_effect(model, CLEAN, CORRUPT, (1, 2), "logits", **options)
    place = options["position"]
    source = model.tokenizer.decode(ids_of(model, CORRUPT, place), skip_special_tokens=False)
    if place is not None:
        source = source.removeprefix("[CLS] ").removesuffix(" [SEP]")
    plain = mv.ablate(model, CLEAN, [(1, 2)], "patch_z", source=source, **options)
    assert abs(found.clean - plain.logit_difference_before) <= 1e-4
    expected = plain.logit_difference_after - plain.logit_difference_before
    assert abs(found.total - expected) <= 1e-4
    assert found.total != 0 and found.direct != 0


def test_without_replaying_it_is_the_same(monkeypatch):
    model = predicting("gpt2")
    expected = [path_effect(model, CLEAN, CORRUPT, *path, **asked(model)) for path in PATHS]
    monkeypatch.setattr(replay, "MAX_RECORDED_BYTES", 10)
    for path, before in zip(PATHS, expected, strict=True):
        found = path_effect(model, CLEAN, CORRUPT, *path, **asked(model))
        assert abs(found.direct - before.direct) <= 1e-5
        assert abs(found.total - before.total) <= 1e-5


def test_means_take_the_place_of_a_text():
    model = predicting("gpt2", double=True)
    texts, path = ["a dog ran", "the street was not too tired"], ((0, 3), (2, 4, "key"))
    means = reference_means(model, texts)
    found = path_effect(model, CLEAN, means, *path, **asked(model))
    again = path_effect(model, CLEAN, texts, *path, **asked(model))
    assert found.direct == again.direct
    plain, ids = PlainPaths(model.network), ids_of(model, CLEAN, None)
    logits = plain.effect_logits(ids, means.means[0, 3].double(), *path, True)
    target, against = model.tokenizer.convert_tokens_to_ids(["mat", "cat"])
    after = float(logits[-1, target] - logits[-1, against])
    assert abs(found.direct - (after - found.clean)) <= 1e-10


def test_the_copy_of_a_shared_key_changes_for_one_head_alone():
    """Heads that share a key head: what all of them read together is what the shared one gives."""
    model = predicting("llama", double=True)
    runs = patching_experiment(
        model, CLEAN, CORRUPT, "logit", target="mat", against=None, position=None
    ).runs
    group = model.n_heads // model.n_kv_heads
    for name in ("key", "value"):
        read, _ = runs.receiver_inputs([(0, 1)], direct=False, readers=[2], to_logits=False)
        heads = read[2][name][0].unflatten(0, (-1, group))
        assert torch.equal(heads[:, 0], heads[:, 1])
        one, other = (
            path_effect(model, CLEAN, CORRUPT, (0, 1), (2, head, name), **asked(model))
            for head in (2, 3)
        )
        assert one.direct != other.direct != 0


# -- estimates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_estimates(name):
    model = predicting(name)
    found = path_effect(model, CLEAN, CORRUPT, (0, 1), (2, 1, "value"), **asked(model))
    # z is linear in the values, and what follows is nearly so over a small change.
    assert found.direct_estimate != 0 and found.total_estimate != 0
    assert abs(found.direct_estimate - found.direct) <= 0.5 * abs(found.direct) + 1e-3


# -- what comes back -------------------------------------------------------------------------------


def test_tokens_that_are_not_named_are_the_likeliest(gpt):
    clean, corrupt = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    found = path_effect(gpt, clean, corrupt, (0, 3), (2, 1, "key"))
    first, other = (mv.predict(gpt, text).candidates for text in (clean, corrupt))
    assert found.target == first[0]
    assert found.against == next(label for label in (*other, *first) if label != first[0])
    assert found.table().exact.tolist() == [found.direct, found.total]


def test_the_model_is_left_as_it_was(models):
    model = models["gpt2"]
    before = copy.deepcopy(model.network.state_dict())
    hooks = [len(part._forward_hooks) for part in model.network.modules()]
    with torch.inference_mode():
        inside = path_effect(model, CLEAN, CORRUPT, (0, 3), (2, 1, "key"), target="mat")
    assert inside.direct == (
        path_effect(model, CLEAN, CORRUPT, (0, 3), (2, 1, "key"), target="mat").direct
    )
    after = model.network.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert [len(part._forward_hooks) for part in model.network.modules()] == hooks


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(corrupt="the cat sat"), TextError, "6"),
        (dict(sender=(0, 9)), ArgumentError, "has no L0 H9"),
        (dict(receiver=(0, 1, "key")), ArgumentError, "later layer"),
        (dict(receiver=(1, 1, "pattern")), ArgumentError, "receiver"),
        (dict(metric="magic"), ArgumentError, "metric"),
        (dict(metric="logit", against="cat"), ArgumentError, "against"),
        (dict(metric="kl", target="cat"), ArgumentError, "target"),
        (dict(target="zebra"), MhaVizError, "zebra"),
        (dict(position=99), ArgumentError, "position"),
        (dict(clean=""), TextError, "empty"),
    ],
)
def test_what_cannot_be_patched_is_said_in_a_sentence(models, change, error, message):
    path = dict(clean=CLEAN, corrupt=CORRUPT, sender=(0, 3), receiver=(1, 2, "key"))
    with pytest.raises(error, match=message):
        path_effect(models["gpt2"], **(path | change))


def test_mlps_in_pieces_and_means_of_another_model_are_refused(models):
    model = predicting("bert")
    config = copy.deepcopy(model.network.config)
    config.chunk_size_feed_forward = 1  # each layer's MLP is called for one token at a time
    network = tf.BertForMaskedLM(config).requires_grad_(False)
    network.load_state_dict(model.network.state_dict())
    pieces = mv.wrap(network, model.tokenizer)
    with pytest.raises(AttentionUnavailableError):
        path_effect(pieces, CLEAN, CORRUPT, (0, 1), (1, 2, "key"), **asked(model))
    means = reference_means(predicting("llama"), ["a dog ran"])
    with pytest.raises(ArgumentError):
        path_effect(models["gpt2"], CLEAN, means, (0, 1), "logits")
