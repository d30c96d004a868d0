"""Heads that learned nothing earn no labels, however short the text and large the weights."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.measure import measure, text_baselines
from mha_viz.core.metrics import LABELS, head_labels
from mha_viz.reports.report import report
from tests.engine.test_families import GPT_LIKE, WORDS, small_tokenizer

BUDGET = 0.005  # of the heads, for each label
SEEDS, SCALES, LENGTHS = range(2), (1.0, 3.0, 10.0), (2, 3, 4, 8, 20, 64)
SIZES = dict(
    GPT_LIKE,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=8,
    intermediate_size=64,
    max_position_embeddings=64,
)
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
                record = model.trace(words)
                for layer in head_labels(measure(record), text_baselines(record, random)):
                    yield from ([found.label.key for found in head] for head in layer)


@pytest.mark.slow
def test_of_untrained_heads_hardly_any_is_labelled() -> None:
    heads = [labels for name in FAMILIES for labels in labelled(name)]
    assert len(heads) == len(FAMILIES) * len(SEEDS) * len(SCALES) * len(LENGTHS) * 16
    counts = Counter(label for labels in heads for label in labels)
    assert not {key: n for key, n in counts.items() if n > BUDGET * len(heads)}


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
