"""The views a record makes, by hand-computed numbers: merged words, tokens left out."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.views import weight_among
from mha_viz.core.record.visible import visible_keys
from mha_viz.errors import ArgumentError
from tests.core.records import D_HEAD, HEADS, LAYERS, TOKENS, make, tokens_of, visible_everywhere
from tests.making.comparing import close


def plain(rows: list[list[float]], tokens: tuple[Token, ...], **fields) -> AttentionRecord:
    """One head with these weights."""
    return AttentionRecord(torch.tensor([[rows]]), tokens, **fields)


# -- words ---------------------------------------------------------------------------------------


def test_mass_to_a_word_is_summed_and_mass_from_it_averaged():
    # a | b1 b2 | c: the middle two are one word
    record = plain(
        [[0.1, 0.2, 0.3, 0.4],
         [0.0, 0.5, 0.25, 0.25],
         [0.6, 0.1, 0.1, 0.2],
         [0.7, 0.0, 0.3, 0.0]],
        tokens_of(0, 1, 1, 2),
    )  # fmt: skip
    merged = record.merge_words()
    expected = [[0.1, 0.5, 0.4], [0.3, 0.475, 0.225], [0.7, 0.3, 0.0]]
    close(merged.pattern[0, 0], expected)
    assert merged.merged and merged.labels == ("t0", "t1t2", "t3")
    assert [token.id for token in merged.tokens] == [10, -1, 13]
    close(record.pattern[0, 0, 0], [0.1, 0.2, 0.3, 0.4])  # the first one is as it was
    assert merged.merge_words() is merged


def test_special_tokens_and_segments_keep_words_apart():
    tokens = (
        *tokens_of(None, 4, 4, None, None),
        dataclasses.replace(tokens_of(4)[0], segment=1, start=0, end=2),
        dataclasses.replace(tokens_of(4)[0], segment=1, start=2, end=4),
    )
    record = plain(torch.full((7, 7), 1 / 7).tolist(), tokens, text="xxxx", text_pair="über")
    merged = record.merge_words()
    assert merged.labels == ("t0", "t1t2", "t3", "t4", "über")
    close(merged.pattern[0, 0, 1], torch.tensor([1, 2, 1, 1, 2]) / 7)
    # The same word number in two segments, with nothing between them
    both = plain([[0.5, 0.5], [0.5, 0.5]], tokens_of(4, 4, segments=(0, 1)))
    assert both.merge_words().labels == ("t0", "t1")


def test_cross_attention_merges_each_axis_by_its_own_words():
    record = AttentionRecord(
        torch.tensor([[[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]]]),
        tokens_of(0, 0),
        tokens_of(0, 1, 1),
        part="cross",
    )
    merged = record.merge_words()
    close(merged.pattern[0, 0], [[0.3, 0.7]])
    assert (len(merged.tokens), len(merged.key_tokens)) == (1, 2)


def test_z_of_words_is_what_the_averaged_rows_give():
    record = make()
    values = torch.randn(LAYERS, HEADS, TOKENS, D_HEAD)
    merged = make(z=record.pattern @ values).merge_words()
    average = torch.tensor(
        [[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1.0]]
    )
    close(merged.z, average @ record.pattern @ values)
    assert merged.query is None and merged.key is None and merged.value is None
    # Reading the values by words' means would be another quantity unless they agree inside a word.
    values[:, :, 2] = values[:, :, 1]
    merged = make(z=record.pattern @ values).merge_words()
    close(merged.z, merged.pattern @ values[:, :, [0, 1, 3, 4]])
    outputs = [z @ W for z, W in zip(merged.z, merged.W_O, strict=True)]
    close(merged.head_output, torch.stack(outputs))  # the output weights still apply to it


# -- tokens left out -----------------------------------------------------------------------------

ROWS = [[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [0.6, 0.1, 0.1, 0.2], [0.25] * 4]


def test_special_tokens_go_from_both_axes():
    record = plain(ROWS, tokens_of(None, 0, 1, None), z=torch.arange(4.0).reshape(1, 1, 4, 1))
    kept = record.without_special(renormalize=False)
    close(kept.pattern[0, 0], [[0.5, 0.5], [0.1, 0.1]])
    assert kept.labels == kept.key_labels == ("t1", "t2")
    assert kept.z.flatten().tolist() == [1.0, 2.0]
    close(kept.removed[0, 0], [0.0, 0.8])
    close(kept.removed_mass, [[0.4]])
    scaled = record.without_special()
    close(scaled.pattern[0, 0], [[0.5, 0.5], [0.5, 0.5]])
    close(scaled.removed_mass, [[0.4]])
    assert record.removed is None and record.removed_mass is None
    record = plain(ROWS, tokens_of(0, 1, 2, 3))
    assert record.without_special() is record


@pytest.mark.parametrize(
    "renormalize", [(True, True), (True, False), (False, True), (False, False)]
)
def test_two_removals_count_as_one_of_both(renormalize):
    """Rows 2 and 3 keep the keys 2 and 3: 0.1 + 0.2 and 0.25 + 0.25 of their mass."""
    record = plain(ROWS, tokens_of(None, 0, 1, 2))
    kept = record.without_special(renormalize[0]).without_first(renormalize[1])
    assert kept.labels == ("t2", "t3")
    close(kept.removed[0, 0], [0.7, 0.5])
    close(kept.removed_mass, [[0.6]])
    if any(renormalize[1:]):
        close(kept.pattern[0, 0], [[1 / 3, 2 / 3], [0.5, 0.5]])
    if not any(renormalize):
        close(kept.pattern[0, 0], [[0.1, 0.2], [0.25, 0.25]])


def test_rows_with_nothing_left_are_zeros():
    record = plain([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 - 1e-7, 1e-7, 0.0]], tokens_of(None, 0, 1))
    kept = record.without_special()
    assert kept.pattern.count_nonzero() == 0 and not kept.pattern.isnan().any()
    close(kept.removed[0, 0], [1.0, 1.0])
    again = kept.without_first()  # of nothing, nothing more can go
    assert again.pattern.count_nonzero() == 0
    close(again.removed[0, 0], [1.0])
    record = plain([[1.0, 0, 0], [0, 0, 0], [0.5, 0, 0.5]], tokens_of(None, 0, 1))
    close(record.without_special().removed[0, 0], [0.0, 0.5])
    with pytest.raises(ArgumentError, match="Nothing would be left"):
        plain([[0.5, 0.5], [0.5, 0.5]], tokens_of(None, None)).without_special()
    with pytest.raises(ArgumentError, match="Nothing would be left"):
        plain([[1.0]], tokens_of(0)).without_first()


def test_the_keys_of_cross_attention_lose_their_own():
    record = AttentionRecord(
        torch.tensor([[[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]]]),
        tokens_of(0, 1),
        tokens_of(0, None, 1),
        part="cross",
        query=torch.zeros(1, 1, 2, 1),
        key=torch.arange(3.0).reshape(1, 1, 3, 1),
        value=torch.arange(6.0).reshape(1, 1, 3, 2),
    )
    kept = record.without_special(renormalize=False)
    close(kept.pattern[0, 0], [[0.2, 0.5], [0.4, 0.2]])
    close(kept.removed_mass, [[0.35]])
    assert kept.query.shape[2] == 2 and kept.key.flatten().tolist() == [0.0, 2.0]
    assert kept.value.flatten().tolist() == [0.0, 1.0, 4.0, 5.0]


# -- what a query may see ------------------------------------------------------------------------


def windowed(n: int, width: int) -> torch.Tensor:
    """A token sees itself and those before it, `width` in all; in a second layer, all before."""
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return torch.stack([causal.triu(1 - width), causal])


def test_what_a_query_may_see_goes_through_every_view():
    tokens = tokens_of(None, 0, 0, 1, 2)
    allowed = windowed(5, 2)
    record = make(tokens=tokens, allowed=allowed, causal=True)
    assert torch.equal(record.without_first().allowed, allowed[:, 1:, 1:])
    words = record.merge_words()
    assert torch.equal(words.allowed, allowed)  # of the tokens, which baselines are made of
    rest = words.without_first()
    assert [token.parts for token in rest.tokens] == [2, 1, 1]
    assert torch.equal(rest.allowed, allowed[:, 1:, 1:])
    assert record != dataclasses.replace(record, allowed=None)


@pytest.mark.parametrize("tokens", [[3], [0, 2, 3], [4, 1, 1], range(TOKENS)])
def test_weight_among_tokens_is_the_mean_of_what_each_gives_all(tokens):
    record = make()
    pattern, places = record.pattern, sorted(set(tokens))
    for layer in range(LAYERS):
        for head in range(HEADS):
            sums = [sum(float(pattern[layer, head, q, k]) for k in places) for q in places]
            found = weight_among(record, tokens)[layer, head]
            assert float(found) == pytest.approx(sum(sums) / len(places), abs=1e-6)


@pytest.mark.parametrize("tokens", [[], [TOKENS], [-TOKENS - 1]])
def test_weight_among_tokens_that_are_not_there_is_refused(tokens):
    with pytest.raises(ArgumentError, match="tokens"):
        weight_among(make(), tokens)


FUTURE = torch.ones(4, 4, dtype=torch.bool).triu(1)


def made(pattern, **given):
    tokens = [f"t{i}" for i in range(pattern.shape[-1])]
    return mv.record(np.asarray(pattern, dtype=np.float32), tokens, **given)


def test_a_weight_of_zero_is_visible_and_the_future_is_not():
    identity = np.eye(4)[None, None].repeat(2, 1)
    causal, full = (made(identity, causal=causal) for causal in (True, False))
    assert torch.equal(visible_keys(causal, 0), ~FUTURE)
    assert visible_keys(full, -1).all()
    pattern = np.full((1, 1, 4, 4), 0.25)
    assert visible_keys(made(pattern, causal=True), 0).all()


def test_a_row_without_weight_sees_nothing_unless_it_was_taken_away():
    pattern = np.full((2, 2, 4, 4), 0.25)
    pattern[1, :, 2] = 0.0
    pattern[0, 0, 2] = 0.0  # in one head of two only: no mask does that
    seen = visible_everywhere(made(pattern, causal=False))
    assert seen[0].all() and not seen[1, 2].any() and seen[1, [0, 1, 3]].all()
    first = np.zeros((1, 1, 4, 4))
    first[..., 0] = 1.0  # every row rests on the first token
    rested = made(first, causal=True).without_first()
    assert torch.equal(visible_keys(rested, 0), torch.ones(3, 3, dtype=torch.bool).tril())


def test_a_window_is_what_the_record_says():
    band = ~(FUTURE | torch.ones(4, 4, dtype=torch.bool).tril(-2))
    pattern = np.zeros((2, 1, 4, 4))
    pattern[:, :, range(4), range(4)] = 1.0
    both = replace(made(pattern, causal=True), allowed=torch.stack([band, ~FUTURE]))
    assert torch.equal(visible_everywhere(both), torch.stack([band, ~FUTURE]))
