"""Heads that learned nothing earn no labels, however short the text and large the weights."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.measure import measure, rotation_null, text_baselines
from mha_viz.core.metrics import LABELS, head_labels
from mha_viz.reports.report import report
from tests.engine.test_families import GPT_LIKE, WORDS, small_tokenizer
from tests.making.every_family import CAUSAL, PAIRED
from tests.making.every_family import FAMILIES as EVERY

BUDGET = 0.005  # of the heads, for each label
SEEDS, SCALES, LENGTHS = range(2), (1.0, 3.0, 10.0), (2, 3, 4, 8, 20, 64)
SIZES = GPT_LIKE | dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8)
SIZES |= dict(intermediate_size=64, max_position_embeddings=64)
ROTARY = dict(SIZES, num_key_value_heads=4, head_dim=8)
FAMILIES = {
    "plain": tf.BertConfig(**SIZES),
    "causal": tf.GPT2Config(**GPT_LIKE, n_embd=64, n_layer=2, n_head=8, n_positions=64),
    "windowed": tf.MistralConfig(**ROTARY, sliding_window=4),
    "every other layer windowed": tf.Gemma2Config(**ROTARY, sliding_window=6),
    "ALiBi": tf.BloomConfig(**GPT_LIKE, hidden_size=64, n_layer=2, n_head=8),
}


def untrained(name: str, seed: int = 0, scale: float = 1.0) -> mv.AttentionModel:
    torch.manual_seed(1000 + seed)
    network = tf.AutoModel.from_config(FAMILIES[name], attn_implementation="eager").eval()
    for parameter in network.parameters():
        if parameter.ndim > 1:
            parameter.data *= scale
    return mv.wrap(network, small_tokenizer(template=name == "plain"))


def text(seed: int, length: int) -> str:
    generator = torch.Generator().manual_seed(100 * seed + length)
    drawn = torch.randint(len(WORDS), (length,), generator=generator)
    return " ".join(WORDS[i] for i in drawn)


def labelled(name: str) -> Iterator[list[str]]:
    """The labels of every head, on every text, of models that were never trained."""
    copy = untrained_copy(untrained(name))  # with a seed of its own
    for seed in SEEDS:
        models = [untrained(name, seed, scale) for scale in SCALES]
        for length in LENGTHS:
            words = text(seed, max(1, length - 2 * (name == "plain")))
            random = measure(copy.trace(words))
            for model in models:
                yield from labels_of(model.trace(words), random)


def labels_of(record: mv.AttentionRecord, random: dict[str, torch.Tensor]) -> Iterator[list[str]]:
    given = text_baselines(record, random)
    for layer in head_labels(measure(record), given, rotation_null(record)):
        yield from ([found.label.key for found in head] for head in layer)


@pytest.mark.extended
@pytest.mark.slow
def test_of_untrained_heads_hardly_any_is_labelled() -> None:
    heads = [labels for name in FAMILIES for labels in labelled(name)]
    assert len(heads) == len(FAMILIES) * len(SEEDS) * len(SCALES) * len(LENGTHS) * 16
    counts = Counter(label for labels in heads for label in labels)
    assert not {key: n for key, n in counts.items() if n > BUDGET * len(heads)}


# Of queries and keys, by how the families name them; in the last two beside the values.
QK = "query.|key.|q_lin|k_lin|q_proj|k_proj|.q.|.k.|query_proj|key_proj"
WITH_VALUES = "query_key_value|wqkv"


def sharpened(config: tf.PretrainedConfig, name: str, seed: int) -> mv.AttentionModel:
    """A random model whose heads look at few keys: queries and keys are 8 times as large."""
    torch.manual_seed(1000 + seed)
    network = tf.AutoModel.from_config(config, attn_implementation="eager").eval()
    touched = 0
    for parameter_name, parameter in network.named_parameters():
        lower, own = parameter_name.lower(), parameter.data
        if "c_attn" in lower:
            own = own[..., : 2 * own.shape[-1] // 3]
        elif not any(part in lower for part in (*QK.split("|"), *WITH_VALUES.split("|"))):
            continue
        own *= 8
        touched += 1
    assert touched or name in ("t5",), name
    return mv.wrap(network, small_tokenizer(name not in CAUSAL and name not in PAIRED))


def labelled_once_sharpened(
    config: tf.PretrainedConfig, name: str, seeds: range, lengths: tuple[int, ...]
) -> list[list[str]]:
    heads: list[list[str]] = []
    for seed in seeds:
        model = sharpened(config, name, seed)
        copy = untrained_copy(model)
        for length in lengths:
            words = text(seed, length)
            heads += labels_of(model.trace(words), measure(copy.trace(words)))
    return heads


def test_of_sharp_random_heads_at_most_one_in_a_hundred_is_labelled() -> None:
    sizes = {"num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 128}
    config = tf.BertConfig(vocab_size=len(WORDS) + 5, hidden_size=768, pad_token_id=0, **sizes)
    heads = labelled_once_sharpened(config, "bert", range(1), (9, 20, 40))
    assert len(heads) == 3 * 144
    assert sum(map(bool, heads)) <= 0.01 * len(heads)


LARGER = SIZES | {"num_hidden_layers": 6, "hidden_size": 128, "vocab_size": len(WORDS) + 5}
SHARP = {
    "bert": tf.BertConfig(**LARGER),
    "gpt2": tf.GPT2Config(**GPT_LIKE, n_embd=128, n_layer=6, n_head=8, n_positions=64),
    "llama": tf.LlamaConfig(**LARGER | {"num_hidden_layers": 12}, num_key_value_heads=4),
}


def test_of_sharp_random_networks_hardly_one_has_a_labelled_head_on_a_text() -> None:
    labelled = [
        any(labelled_once_sharpened(config, name, range(seed, seed + 1), (20,)))
        for name, config in SHARP.items()
        for seed in range(10)
    ]
    assert len(labelled) == 30 and sum(labelled) <= 0.05 * len(labelled)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_of_sharp_random_heads_of_any_family_hardly_one_is_labelled(name: str) -> None:
    heads = labelled_once_sharpened(EVERY[name], name, range(10, 16), (9, 14, 20, 40))
    assert len(heads) >= 360
    assert sum(map(bool, heads)) <= 0.01 * len(heads)


# Chance gives some heads that look at the first token in a short text: few of them are no finding.
PREFERRED = ("first_token",)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_shipped_models_keep_the_labels_of_their_shares(name: str) -> None:
    model = mv.load(name)
    for words in ("The old dog slept while the young cat watched the old dog.", LONG):
        made = report(model.trace(words), model)
        alone = head_labels(made.scores, made.baselines)
        n_heads = Counter(one.label.key for layer in alone for head in layer for one in head)
        for layer, kept in zip(alone, made.labels, strict=True):
            for reached, held in zip(layer, kept, strict=True):
                sure = {one for one in reached if one.label.key not in PREFERRED}
                sure |= {one for one in reached if n_heads[one.label.key] > 4}
                assert {one for one in sure if not one.label.relative} <= set(held)
                assert set(held) <= set(reached)


LONG = (
    "Once upon a time, there was a little girl named Lily. She loved to play with her red ball in "
    "the park. One day, she saw a big dog. The dog wanted to play with the ball too."
)


def test_labels_that_chance_explains_are_withheld_and_named() -> None:
    config = tf.BertConfig(**SIZES | {"num_hidden_layers": 6})
    model = sharpened(config, "bert", 0)
    made = report(model.trace(text(0, 8)), model)
    reached = sum(
        bool(head) for layer in head_labels(made.scores, made.baselines) for head in layer
    )
    held = sum(bool(head) for layer in made.labels for head in layer)
    assert reached > held
    assert sum(bool(head) for layer in made.withheld for head in layer) == reached - held
    (note,) = (note for note in made.notes if note.startswith("Labels withheld"))
    assert str(reached - held) in note


def test_what_does_it_for_sure_is_labelled_on_a_short_text() -> None:
    record = untrained("causal").trace(text(0, 8))
    previous = torch.eye(8).roll(-1, dims=1)
    previous[0] = torch.eye(8)[0]  # which has none before it
    scores = measure(mv.record([previous[None]], record.tokens, causal=True))
    ((found,),) = head_labels(scores, text_baselines(record))
    assert [one.label for one in found] == [LABELS["previous_token"]]
    assert 0.5 < found[0].threshold < 1


def test_a_text_too_short_to_tell_says_so() -> None:
    model = untrained("causal")
    made = report(model.trace(text(0, 3)), model)
    assert {label.key for label in made.too_short(0)} >= {"self", "first_token", "previous_token"}
    (note,) = (note for note in made.notes if note.startswith("The text is too short to tell: "))
    assert "Same position" in note and "Induction" not in note
    assert not report(model.trace(text(0, 20))).too_short(0)
