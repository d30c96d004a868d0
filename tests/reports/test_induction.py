"""Induction scores: against plain runs of the network, and what trained and random heads get."""

import pytest
import scipy.stats
import torch
from tokenizers import AddedToken

from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.reports import induction as module
from mha_viz.reports.induction import induction_scores
from mha_viz.text.encoding import encode_texts
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, N_CTX, WORDS
from tests.making.comparing import close
from tests.making.families import build

OWN = range(5, len(WORDS))  # those of WORDS that are not special


def said_twice(vocabulary, period: int, seed: int) -> list[int]:
    order = torch.randperm(len(vocabulary), generator=torch.Generator().manual_seed(seed))
    return [vocabulary[int(i)] for i in order[:period]] * 2


def by_a_plain_loop(patterns: list[torch.Tensor], period: int, start: int) -> torch.Tensor:
    """patterns: of each text (layer, head, query, key)."""
    scores = []
    for pattern in patterns:
        total = 0
        for i in range(period):
            total = total + pattern[:, :, start + period + i, start + i + 1]
        scores.append(total / period)
    return torch.stack(scores)


def weights_alone(model: AttentionModel, ids: list[int], **more: torch.Tensor) -> torch.Tensor:
    """One text through the network by its own eager attention: (layer, head, query, key)."""
    network = model.network
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    with torch.no_grad():
        output = network(input_ids=torch.tensor([ids]), output_attentions=True, **more)
    network.set_attn_implementation(before)
    name = "decoder_attentions" if "decoder_input_ids" in more else "attentions"
    return torch.stack([layer[0] for layer in output[name]])


# -- trained and untrained -----------------------------------------------------------------------


def test_the_shipped_gpt2_has_an_induction_head_and_its_untrained_copy_has_none(gpt):
    found = induction_scores(gpt)
    assert (found.n_seeds, found.period) == (5, 25)
    assert found.mean.shape == found.low.shape == found.high.shape == (4, 8)
    assert found.mean.dtype == torch.float32
    best = divmod(int(found.mean.argmax()), 8)
    assert found.mean[best] >= 0.8
    assert found.high[best] - found.low[best] < 0.2
    assert (found.low <= found.mean).all() and (found.mean <= found.high).all()
    assert found.low.min() >= 0 and found.high.max() <= 1
    untrained = induction_scores(untrained_copy(gpt))
    assert untrained.mean.max() < 0.3 and found.low[best] > untrained.high.max()


def test_it_is_the_same_at_every_call_and_leaves_torchs_random_numbers_alone(gpt):
    first = induction_scores(gpt, n_seeds=3)
    torch.manual_seed(29)
    expected = torch.rand(3)
    torch.manual_seed(29)
    again = induction_scores(gpt, n_seeds=3)
    assert torch.equal(torch.rand(3), expected)
    for name in ("mean", "low", "high"):
        assert torch.equal(getattr(first, name), getattr(again, name))


# -- against plain runs --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "before", "after"), [("bert", [2], [3]), ("gpt2", [], [])])
@pytest.mark.parametrize("period", [None, 3])
def test_scores_are_those_of_single_runs(models, name, before, after, period):
    found = induction_scores(models[name], n_seeds=4, period=period)
    period = period or len(OWN)  # no more fit than there are words
    assert found.period == period
    patterns = [
        weights_alone(models[name], [*before, *said_twice(OWN, period, seed), *after])
        for seed in range(4)
    ]
    scores = by_a_plain_loop(patterns, period, len(before)).double()
    close(found.mean, scores.mean(0))
    low, high = scipy.stats.t.interval(
        0.95, 3, loc=scores.mean(0), scale=scipy.stats.sem(scores.numpy(), axis=0)
    )
    close(found.low, torch.tensor(low).clamp(0, 1))
    close(found.high, torch.tensor(high).clamp(0, 1))
    assert found.mean.std() > 1e-4  # not the same number for all


def test_scores_of_an_encoder_and_of_a_decoder():
    model = build("t5")  # its test tokenizer puts nothing around a text
    texts = [said_twice(OWN, 5, seed) for seed in range(3)]
    start = torch.tensor([[0]])
    encoder = [
        model.trace(" ".join(WORDS[i] for i in ids), part="encoder").pattern for ids in texts
    ]
    found = induction_scores(model, n_seeds=3, period=5)
    close(found.mean, by_a_plain_loop(encoder, 5, 0).mean(0))
    decoder = [
        weights_alone(model, [0], decoder_input_ids=torch.cat([start, torch.tensor([ids])], 1))
        for ids in texts
    ]
    found = induction_scores(model, n_seeds=3, period=5, part="decoder")
    assert found.mean.shape == (3, HEADS)
    close(found.mean, by_a_plain_loop(decoder, 5, 1).mean(0))
    with pytest.raises(ArgumentError, match='"encoder" or "decoder", not "cross"'):
        induction_scores(model, part="cross")


def test_texts_are_encoded_as_the_model_encodes_what_is_typed(models):
    for model in models.values():
        sample = module.sample_text(model, "self")
        ids = said_twice(OWN, 4, 0)
        typed, _ = encode_texts(model.reader, " ".join(WORDS[i] for i in ids))
        made = module.with_tokens(sample, ids, model)
        assert made.input_ids == typed.input_ids and made.token_type_ids == typed.token_type_ids
        assert [t.text for t in made.tokens] == [t.text for t in typed.tokens]
        assert [t.is_special for t in made.tokens] == [t.is_special for t in typed.tokens]


# -- what fits -----------------------------------------------------------------------------------


def test_copies_hold_different_tokens_and_no_special_ones(gpt):
    vocabulary = module.plain_tokens(gpt)
    assert not set(vocabulary) & set(gpt.tokenizer.all_special_ids)
    assert len(vocabulary) > 1000 and max(vocabulary) < gpt.d_vocab
    texts = [module._repeated_text(vocabulary, 25, seed) for seed in range(5)]
    assert all(len(set(text)) == 25 and text[:25] == text[25:] for text in texts)
    assert len({tuple(text) for text in texts}) == 5


def test_tokens_that_a_tokenizer_reserves_are_special(monkeypatch):
    model = build("llama")
    model.tokenizer.add_tokens([AddedToken("<reserved>", special=True), AddedToken("dog")])
    assert model.tokenizer.convert_tokens_to_ids("<reserved>") == len(WORDS)
    assert module.plain_tokens(model) == list(OWN)  # the network does not know the new ones
    monkeypatch.setattr(model, "d_vocab", len(WORDS) + 2)
    assert module.plain_tokens(model) == [*OWN, len(WORDS) + 1]


def test_a_short_context_takes_what_fits(gpt, monkeypatch):
    monkeypatch.setattr(gpt, "n_ctx", 21)
    assert induction_scores(gpt, n_seeds=2).period == 10
    with pytest.raises(ArgumentError, match=r"period must lie in 2\.\.10"):
        induction_scores(gpt, period=11)


@pytest.mark.parametrize("period", [-1, 0, 1, 9, 10**9])
def test_a_period_that_does_not_fit(models, period):
    assert (len(OWN), LAYERS, D_HEAD) == (8, 3, 7) and len(OWN) < N_CTX // 2
    with pytest.raises(ArgumentError, match=r"period must lie in 2\.\.8: .* has 8 that are not"):
        induction_scores(models["bert"], period=period)


@pytest.mark.parametrize("n_seeds", [-1, 0, 1, 10**7])
def test_too_few_texts_and_too_many(models, n_seeds):
    with pytest.raises(ArgumentError, match=r"n_seeds must lie in 2\.\."):
        induction_scores(models["bert"], n_seeds=n_seeds)
