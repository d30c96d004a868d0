"""AttentionRecord: what it holds, says and gives, and what it refuses."""

import numpy as np
import pytest
import torch

from mha_viz.core.measure import head_similarity
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import ArgumentError, NotKeptError, RecordError
from tests.core.outputs_by_definition import materialised
from tests.core.records import (
    D_HEAD,
    D_KEY,
    D_MODEL,
    D_VALUE,
    HEADS,
    LAYERS,
    TOKENS,
    make,
    tokens_of,
)
from tests.making.comparing import close, near

# -- what a record is ----------------------------------------------------------------------------


def test_sizes_labels_and_parts():
    record = make()
    assert (record.n_layers, record.n_heads, record.is_cross) == (LAYERS, HEADS, False)
    assert record.labels == record.key_labels == ("[CLS]", "wal", "king", "cats", "[SEP]")
    cross = AttentionRecord(
        torch.full((1, 1, 2, 3), 1 / 3), tokens_of(0, 1), tokens_of(4, 5, 6), part="cross"
    )
    assert cross.is_cross and len(cross.labels) == 2 and len(cross.key_labels) == 3


def test_equality_is_by_value_and_there_is_no_hash():
    assert make() == make() and make() is not make()
    assert make() != make(model="other") and make() != make(z=None)
    assert make() != make(notes=("cut",)) and make() != "a record"
    other = make().pattern.clone()
    other[0, 0, 0] = other[0, 0, 0].flip(0)
    assert make() != make(pattern=other)
    with pytest.raises(TypeError):
        hash(make())


def test_head_output_is_z_times_the_heads_slice_of_w_o():
    record = make()
    assert record.head_output.shape == (LAYERS, HEADS, TOKENS, D_MODEL)
    close(record.head_output, materialised(record.z, record.W_O))
    assert make(W_O=tuple(w.bfloat16() for w in record.W_O)).head_output.dtype == torch.float32


def test_what_was_not_kept_is_said_with_what_to_do():
    with pytest.raises(NotKeptError, match=r'keep=\("pattern", "query"\)'):
        make(query=None).require("query")
    with pytest.raises(NotKeptError, match=r'keep=\("pattern", "value"\)'):
        make(value=None).require("value")
    assert make().require("z") is not None and make().require("value") is not None
    with pytest.raises(NotKeptError, match="does not hold z"):
        _ = make(z=None).head_output
    with pytest.raises(NotKeptError, match="W_O"):
        _ = make(W_O=()).head_output
    assert isinstance(NotKeptError("x"), AttributeError)  # so that hasattr() asks
    assert list(make(z=None).compare((0, 0), (0, 1)).index) == ["hellinger", "jensen_shannon"]
    with pytest.raises(ArgumentError, match="head must lie in"):
        make().compare((0, 0), (0, 3))


# -- what it refuses -----------------------------------------------------------------------------


def weights(**at: float) -> torch.Tensor:
    pattern = torch.full((1, 1, 2, 2), 0.5)
    for place, value in at.items():
        pattern[0, 0, int(place[1]), int(place[2])] = value
    return pattern


@pytest.mark.parametrize(
    "pattern",
    [
        weights(_00=float("nan")),
        weights(_11=float("inf")),
        weights(_10=-float("inf")),
        weights(_01=-0.01),
        weights(_01=1.1, _00=0.0),
        weights(_10=0.9),
    ],
    ids=["NaN", "infinity", "minus infinity", "negative", "above 1", "row sum above 1"],
)
def test_numbers_that_are_no_weights(pattern):
    with pytest.raises(RecordError, match="must hold attention weights"):
        AttentionRecord(pattern, tokens_of(0, 1))


def test_rows_may_sum_to_less_and_to_a_little_more():
    AttentionRecord(weights(_00=0.0, _01=0.0), tokens_of(0, 1))  # a query that sees nothing
    AttentionRecord(weights(_10=0.504), tokens_of(0, 1))  # bfloat16
    with pytest.raises(RecordError):
        AttentionRecord(weights(_10=0.52), tokens_of(0, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(tokens=tokens_of(0, 1)), "5 queries and 5 keys, but there are 2 tokens"),
        (dict(key_tokens=tokens_of(0, 1)), "2 key tokens"),
        (dict(z=torch.zeros(LAYERS, HEADS, 4, D_HEAD)), r"z must be .* begin with \(2, 3, 5\)"),
        (dict(query=torch.zeros(LAYERS, 1, TOKENS, D_KEY)), "query must be"),
        (dict(value=torch.zeros(LAYERS, 2, TOKENS, D_VALUE)), r"value must be .* \(2, 3, 5\), or"),
        (dict(value=torch.zeros(LAYERS, HEADS, 4, D_VALUE)), "value must be"),
        (dict(removed=torch.zeros(LAYERS, HEADS, 4)), r"removed must be .* 3 axes"),
        (dict(z=torch.zeros(LAYERS, HEADS, TOKENS, D_HEAD, dtype=torch.int8)), "got torch.int8"),
        (dict(W_O=(torch.zeros(HEADS, D_HEAD, D_MODEL),)), "W_O must have 2 layers, got 1"),
        (dict(scale=(1.0, 1.0, 1.0)), "scale must have 2 layers, got 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_shapes_that_do_not_fit(changes, message, as_users_have_it):
    with pytest.raises(RecordError, match=message):
        make(**changes)


def test_key_heads_are_repeated_for_the_query_heads_that_share_them():
    key, value = torch.rand(LAYERS, 1, TOKENS, D_KEY), torch.rand(LAYERS, 1, TOKENS, D_VALUE)
    record = make(key=key, value=value)
    assert torch.equal(record.for_query_heads("key", 1), key[1].expand(HEADS, -1, -1))
    assert torch.equal(record.for_query_heads("value", 0), value[0].expand(HEADS, -1, -1))
    assert torch.equal(record.for_query_heads("query", 1), record.query[1])
    with pytest.raises(NotKeptError, match="does not hold value"):
        make(value=None).for_query_heads("value", 0)
    shorter = record.without_first()
    assert torch.equal(shorter.key, key[:, :, 1:])
    assert shorter.held_bytes - shorter.pattern.nbytes - shorter.removed.nbytes == (
        record.held_bytes - record.pattern.nbytes  # what is left of the rest is a view
    )


@pytest.mark.parametrize(
    "pattern", [torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64), torch.zeros(0, 1, 2, 2)]
)
def test_patterns_of_another_kind(pattern):
    with pytest.raises(RecordError, match="pattern must"):
        AttentionRecord(pattern, tokens_of(0, 1))


# -- one head, two heads, all of them ------------------------------------------------------------


def test_a_record_is_indexed_by_layer_and_head():
    record = make()
    assert torch.equal(record[1, 2], record.pattern[1, 2])
    assert torch.equal(record[-1, -3], record.pattern[1, 0])
    assert torch.equal(record[np.int64(1), np.int64(2)], record.pattern[1, 2])
    with pytest.raises(ArgumentError, match=r"layer must lie in 0\.\.1, got 2"):
        record[2, 0]


@pytest.mark.parametrize("place", [1, (0, 1, 2), (0, 1.5)])
def test_a_place_is_a_layer_and_a_head(place, as_users_have_it):
    with pytest.raises(ArgumentError, match=r"named by \(layer, head\)"):
        make()[place]
    with pytest.raises(ArgumentError, match=r"named by \(layer, head\)"):
        make().compare(place, (0, 0))


def test_the_long_table_has_every_weight():
    record = make()
    table = record.to_frame()
    names = ["layer", "head", "query", "key", "query_token", "key_token", "weight"]
    assert list(table) == names and len(table) == record.pattern.numel()
    row = table.iloc[1234 % len(table)]
    place = tuple(int(row[name]) for name in names[:4])
    assert row["weight"] == float(record.pattern[place])
    assert set(make(layer_numbers=(3, 7)).to_frame().layer) == {3, 7}
    assert row["query_token"] == record.labels[place[2]]
    back = table["weight"].to_numpy().reshape(tuple(record.pattern.shape))
    assert np.array_equal(back, record.pattern.numpy())
    bytes_of_a_row = table.memory_usage(index=False, deep=True).sum() / len(table)
    assert bytes_of_a_row < 25  # 36 million rows are usual: no object for each label


@pytest.mark.parametrize("measure", ["hellinger", "jensen_shannon", "correlation", "cka"])
def test_two_heads_compare_as_all_heads_do(measure):
    record = make()
    found = record.compare((0, 1), (-1, 2))
    assert found.name == "L0 H1 and L1 H2"
    hybrid = make(layer_numbers=(3, 7))
    assert hybrid.compare((0, 1), (-1, 2)).name == "L3 H1 and L7 H2" and hybrid.layer_of(7) == 1
    everything = head_similarity(record, measure)
    assert found[measure] == near(float(everything[1, HEADS + 2]))
