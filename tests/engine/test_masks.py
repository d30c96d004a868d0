"""Keys that a run let its queries see, and measures that agree with them."""

import functools

import pytest
import torch

import mha_viz as mv
from mha_viz.core.measure import measure, text_baselines
from mha_viz.core.metrics import METRICS
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.recording import infer_window
from tests.engine.test_families import (
    CAUSAL,
    FALLBACK,
    LONG,
    PAIRED,
    SHORT,
    SINGLE,
    build,
    families,
    small_tokenizer,
)
from tests.making.comparing import close, near

OWN = sorted(SINGLE.keys() - FALLBACK)
WINDOWED = {
    "modernbert": (1,),
    "mistral": (0, 1, 2),
    "gemma2": (0, 2),
    "gpt_oss": (0, 2),
    "gpt_neo": (1, 3),
}
TEXT = f"{LONG} and {SHORT}"
OF_WEIGHTS = {
    key for key, m in METRICS.items() if m.of == "head" and not {"outputs", "sink"} & m.needs
}


model = functools.cache(lambda name: build({**SINGLE, **PAIRED}[name], name))


def uniform(model: mv.AttentionModel, part: str, text_pair: str | None = None):
    """The text's record with every head of a part made uniform by the library itself."""
    plain = model.trace(TEXT, text_pair, part=part)
    heads = [(i, j) for i in range(plain.n_layers) for j in range(plain.n_heads)]
    return model.trace(
        TEXT, text_pair, part=part, intervention=Intervention(heads, "uniform", part=part)
    )


def assert_it_scores_its_baseline(record: mv.AttentionRecord) -> None:
    scores, found = measure(record), text_baselines(record)
    assert len(OF_WEIGHTS & scores.keys()) >= 6
    for key in OF_WEIGHTS & scores.keys():
        for layer, heads in enumerate(scores[key].tolist()):
            expected = found[key].at(layer).uniform
            expected = float("nan") if expected is None else expected
            assert heads == near([expected] * len(heads), nan_ok=True), key


@pytest.mark.parametrize("name", families(OWN))
def test_uniform_heads_score_the_uniform_baseline(name: str) -> None:
    record = uniform(model(name), "self")
    for seen in (record, record.merge_words(), record.without_first()):
        assert_it_scores_its_baseline(seen)


@pytest.mark.parametrize("name", families(PAIRED))
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_uniform_heads_of_two_stacks_score_the_uniform_baseline(name: str, part: str) -> None:
    assert_it_scores_its_baseline(uniform(model(name), part, TEXT))


@pytest.mark.parametrize("name", families(SINGLE))
def test_a_record_tells_of_windows_and_of_nothing_else(name: str) -> None:
    record = model(name).trace(TEXT)
    if name not in WINDOWED:
        assert record.allowed is None
        return
    n = len(record.tokens)
    ordinary = torch.ones(n, n, dtype=torch.bool)
    ordinary = ordinary.tril() if name in CAUSAL else ordinary
    for layer, seen in enumerate(record.allowed):
        assert torch.equal(seen, (record.pattern[layer] > 0).any(0))
        assert torch.equal(seen, ordinary) == (layer not in WINDOWED[name])


@pytest.mark.parametrize("name", WINDOWED)
def test_in_a_padded_batch_they_see_what_they_see_alone(name: str) -> None:
    for texts in ((TEXT, LONG), (LONG, TEXT)):
        both = model(name).trace_batch(texts)
        for together, text in zip(both, texts, strict=True):
            assert torch.equal(together.allowed, model(name).trace(text).allowed)


def test_a_window_is_told_from_weights_that_round_to_zero() -> None:
    ordinary = torch.ones(5, 5, dtype=torch.bool).tril()
    weights = torch.rand(2, 5, 5).tril() * torch.ones(5, 5).triu(-2)
    weights[:, 3, 2] = 0.0  # not a whole diagonal
    assert torch.equal(infer_window(weights, ordinary), ordinary.triu(-2))
    every = torch.ones(7, 7, dtype=torch.bool)
    weights = torch.rand(2, 7, 7) * every.triu(-2).tril(1)
    assert torch.equal(infer_window(weights, every), every.triu(-2).tril(1))


def test_what_a_learned_sink_took_is_told_for_each_head(tmp_path) -> None:
    network = build(SINGLE["gpt_oss"], "gpt_oss").network
    for layer in network.layers:  # from next to nothing to nearly everything
        torch.nn.init.uniform_(layer.self_attn.sinks, -4.0, 8.0)
    record = mv.wrap(network, small_tokenizer(template=False)).trace(TEXT)
    close(record.pattern.sum(-1) + record.sink, 1.0)
    assert record.sink_mass.min() < 0.3 and record.sink_mass.max() > 0.7
    table = mv.head_report(record)
    close(table.sink, record.sink_mass.flatten())
    left_out = measure(record.without_first())["sink"]
    close(left_out, record.without_first().sink_mass)
    assert "sink" not in mv.head_report(mv.load("tiny-gpt2").trace(TEXT))  # no column of zeros
    (note,) = (note for note in table.attrs["notes"] if "sink, which is no token" in note)
    assert f"{record.sink_mass.max():.0%}" in note
    # entropies are of the rest, scaled to 1
    rest = record.pattern / record.pattern.sum(-1, keepdim=True)
    want = torch.special.entr(rest).sum(-1).mean(-1)
    close(measure(record)["entropy"], want)
    assert mv.AttentionRecord.load(record.save(tmp_path / "r.safetensors")) == record
    close(record.without_first().sink, record.sink[:, :, 1:])
    close(record.merge_words().sink, record.sink)
