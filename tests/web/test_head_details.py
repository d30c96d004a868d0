"""Payloads of one head: value-weighted shares and scores, against plain computations."""

import numpy as np
import pytest
import torch
from jaxtyping import Float
from numpy.typing import NDArray

import mha_viz as mv
from mha_viz.errors import ArgumentError
from mha_viz.web.head_details import (
    MAX_KEYS,
    STRONGEST_KEYS,
    has_values,
    has_vectors,
    scores_payload,
    shares_payload,
)
from mha_viz.web.payload import grid_payload, unpack

MODELS = ("tiny-bert", "tiny-gpt2", "tiny-llama")
TEXT = "The old dogs slept on the warm mat, and the cat watched them."


def traced(model: str, text: str = TEXT) -> mv.AttentionRecord:
    return mv.load(model).trace(text, keep=("pattern", "z", "query", "key", "value"))


def plain_shares(record: mv.AttentionRecord, layer: int, head: int) -> NDArray[np.float64]:
    """Weights times ‖v W_O‖, over their sum, one key after the other."""
    group = record.n_heads // record.value.shape[1]
    value = record.value[layer, head // group].double()
    lengths = torch.stack([(v @ record.W_O[layer][head].double()).norm() for v in value])
    carried = record.head(layer, head).double() * lengths
    return (carried / carried.sum(-1, keepdim=True)).numpy()


def unpack_scores(payload: bytes) -> tuple[dict, Float[NDArray, "..."], ...]:
    header, body = unpack(payload)
    numbers = np.frombuffer(body, "<f4")
    rows, keys, size = len(header["queries"]), len(header["keys"]), header["d_head"]
    q, k, weights = np.split(numbers, [rows * size, (rows + keys) * size])
    return header, q.reshape(rows, size), k.reshape(keys, size), weights.reshape(-1, keys)


@pytest.mark.parametrize("model", MODELS)
def test_shares_are_weights_times_length_of_values_over_their_sum(model: str) -> None:
    record = traced(model)
    payload = grid_payload(record)
    n = len(record.tokens)
    whole = range(n), range(n)
    for head in ((0, 1), (2, 3)):
        header, body = unpack(shares_payload(payload, record, head, whole))
        shares = np.frombuffer(body, "<f4").reshape(n, n)
        assert header["head"] == head[0] * 8 + head[1] and "window" not in header
        assert header["of"] == unpack(payload)[0]["id"]
        expected = plain_shares(record, *head)
        assert np.abs(shares - expected).max() < 1e-5
        masked = np.signbit(shares)
        assert (
            (masked == (np.triu(np.ones((n, n)), 1) > 0)).all() if record.causal else ~masked.any()
        )
        part = range(2, 7), range(1, 4)
        header, body = unpack(shares_payload(payload, record, head, part))
        assert header["window"] == [2, 1, 5, 3]
        assert (np.frombuffer(body, "<f4").reshape(5, 3) == shares[2:7, 1:4]).all()


@pytest.mark.parametrize("model", MODELS)
def test_softmax_of_scores_from_the_payload_is_the_row(model: str) -> None:
    record = traced(model)
    for head in ((0, 1), (2, 3)):
        header, q, k, sent = unpack_scores(scores_payload(grid_payload(record), record, head))
        weights = record.head(*head).numpy()
        future = np.triu(np.full(weights.shape, record.causal), 1)
        scores = header["scale"] * q.astype(np.float64) @ k.T
        scores[future] = -np.inf
        rows = torch.from_numpy(scores).softmax(-1).numpy()
        assert np.abs(rows - weights).max() < 1e-5 and not sent.size
        assert header["queries"] == header["keys"] == list(range(len(record.tokens)))
        assert max(header["gaps"]) < 1e-5
        assert header["seen"] == (~future).sum(-1).tolist()


def test_gap_is_the_largest_difference_that_products_leave_in_a_row() -> None:
    record = traced("tiny-bert")
    halved = mv.AttentionRecord(
        pattern=record.pattern, tokens=record.tokens, query=record.query, key=record.key,
        scale=tuple(scale / 2 for scale in record.scale),
    )  # fmt: skip
    header, q, k, _ = unpack_scores(scores_payload(grid_payload(halved), halved, (1, 2)))
    rows = torch.from_numpy(header["scale"] * q @ k.T).softmax(-1).numpy()
    weights = record.head(1, 2).numpy()
    assert np.allclose(header["gaps"], np.abs(rows - weights).max(-1), atol=1e-5)
    assert max(header["gaps"]) > 0.01


@pytest.mark.parametrize(("n_words", "listed"), [(180, None), (300, STRONGEST_KEYS)])
def test_of_a_long_text_one_row_is_sent_with_all_or_its_strongest_keys(
    n_words: int, listed: int | None
) -> None:
    record = traced("tiny-llama", "the cat sat on a mat and " * (n_words // 7 + 1))
    n = len(record.tokens)
    query, key = n - 1, int(record.rows(1, 2, [n - 1])[0].argmin())
    payload = scores_payload(grid_payload(record), record, (1, 2), query, key)
    header, q, _, weights = unpack_scores(payload)
    row = record.rows(1, 2, [query])[0].numpy()
    assert (n > MAX_KEYS) == (listed is not None)
    if listed is None:
        assert header["keys"] == list(range(n))
    else:
        assert key in header["keys"] and len(header["keys"]) in (listed, listed + 1)
        assert set(np.argsort(-row)[:10]) <= set(header["keys"])
    assert header["queries"] == [query] and len(q) == 1
    assert (np.abs(weights[0]) == row[header["keys"]]).all()
    assert header["gaps"][0] < 1e-4 and header["seen"] == [n]  # of the whole row
    with pytest.raises(ArgumentError):
        scores_payload(grid_payload(record), record, (1, 2), -1)


def test_records_without_values_or_vectors_are_known_as_such() -> None:
    record = traced("tiny-bert")
    assert has_values(record) and has_vectors(record)
    bare = mv.AttentionRecord(pattern=record.pattern, tokens=record.tokens)
    assert not has_values(bare) and not has_vectors(bare)
    merged = traced("tiny-bert", "Walking homewards, unhappily.").merge_words()
    assert not has_values(merged) and not has_vectors(merged)
