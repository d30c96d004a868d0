"""The payloads carry what was put in: shapes, codes, pooling, labels; and refuse what is wrong."""

import json
import struct

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.record.fields import Token
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.text.from_weights import record
from mha_viz.web.payload import (
    decode,
    encode,
    grid_payload,
    head_payload,
    notes_payload,
    pack,
    row_payload,
    unpack,
)
from tests.making.comparing import close
from tests.plots.drawn import softmax_rows
from tests.web.unpacked import grid_unpack, head_unpack

LAYERS, HEADS, QUERIES, KEYS = 2, 3, 5, 7  # distinct primes: a swapped axis cannot hide


def labels(count: int, name: str = "t") -> list[str]:
    return [f"{name}{i}" for i in range(count)]


def test_grid_round_trip() -> None:
    pattern = softmax_rows(LAYERS, HEADS, QUERIES, KEYS)
    fact = np.arange(6.0).reshape(LAYERS, HEADS)
    fact[0, 1] = np.nan
    queries = [Token(name, 7, is_special=name == "q0") for name in labels(QUERIES, "q")]
    keys = [Token(name, 7, segment=int(name > "k2")) for name in labels(KEYS, "k")]
    payload = grid_payload(
        record(pattern, queries, keys), {"entropy": fact}, exact_url="/media/x.bin"
    )
    header, codes = grid_unpack(payload)
    assert codes.shape == pattern.shape and codes.dtype == np.uint8
    assert (codes == np.rint(255 * np.sqrt(pattern))).all()
    assert header["query_labels"] == labels(QUERIES, "q")
    assert header["key_labels"] == labels(KEYS, "k")
    assert header["facts"]["entropy"] == [0.0, None, 2.0, 3.0, 4.0, 5.0]
    assert header["query_special"] == [1, 0, 0, 0, 0] and not any(header["key_special"])
    assert header["key_segments"] == [0, 0, 0, 1, 1, 1, 1] and not any(header["query_segments"])
    assert header["exact_url"] == "/media/x.bin" and header["pool"] == 1


def test_code_error_is_bounded() -> None:
    weights = np.linspace(0, 1, 100_003, dtype=np.float32)
    error = np.abs(decode(encode(weights)) - weights)
    assert (error <= np.sqrt(weights) / 255 + 1 / 260_100 + 1e-7).all()
    assert encode(np.array([0.0, 1.0, 1.0009], dtype=np.float32)).tolist() == [0, 255, 255]


def test_masked_cells_have_a_code_of_their_own() -> None:
    identity = np.eye(6, dtype=np.float32)[None, None].repeat(2, 1)  # zeros that are visible, too
    masked, plain = (record(identity, labels(6), causal=causal) for causal in (True, False))
    header, codes = grid_unpack(grid_payload(masked))
    future = np.triu(np.ones((6, 6), bool), 1)
    assert header["masked"] and (codes[..., future] == 0).all()
    assert (codes[..., ~future] > 0).all() and (np.diagonal(codes[0, 1]) == 255).all()
    header, codes = grid_unpack(grid_payload(plain))
    assert not header["masked"] and (codes > 0).all()


def test_a_pooled_cell_is_masked_where_all_of_it_is() -> None:
    uniform = np.tri(300, dtype=np.float32) / np.arange(1, 301, dtype=np.float32)[:, None]
    header, codes = grid_unpack(grid_payload(record(uniform[None, None], labels(300))))
    assert header["pool"] == 3
    assert (codes[0, 0] == 0).tolist() == np.triu(np.ones((100, 100), bool), 1).tolist()


def test_both_sides_are_pooled_alike() -> None:
    made = record(softmax_rows(1, 2, 5, 260), labels(5), labels(260))
    header, codes = grid_unpack(grid_payload(made))
    assert header["pool"] == 3 and codes.shape == (1, 2, 2, 87)


def test_facts_must_fit() -> None:
    made = record(softmax_rows(LAYERS, HEADS, QUERIES, KEYS), labels(QUERIES), labels(KEYS))
    with pytest.raises((ShapeError, TypeError)):  # jaxtyping asks first where it is on
        grid_payload(made, {"entropy": np.zeros(HEADS)})
    with pytest.raises(ShapeError, match="entropy"):
        grid_payload(made, {"entropy": np.zeros((HEADS, LAYERS))})


def test_hostile_labels_become_plain_text() -> None:
    hostile = ["</script><b>", "a\u202eb\x00\n", "x" * 5000, "\ud800", ""]
    payload = grid_payload(record(softmax_rows(1, 1, 5, 5), [Token(text, 7) for text in hostile]))
    header, _ = grid_unpack(payload)
    assert header["query_labels"][:2] == ["</script><b>", "ab␀␊"]
    assert len(header["query_labels"][2]) == 24
    assert header["query_labels"][3:] == ["\ufffd", "∅"]
    assert len(payload) < 2000


def test_one_head_of_a_pooled_grid_travels_exactly_and_says_whose_it_is() -> None:
    pattern = softmax_rows(LAYERS, HEADS, QUERIES, KEYS)
    made = record(pattern, labels(QUERIES), labels(KEYS))
    grid = grid_payload(made)
    payload = head_payload(grid, made, (1, 2))
    header, weights = head_unpack(payload)
    assert (weights.reshape(QUERIES, KEYS) == pattern[1, 2]).all() and weights.dtype == np.float32
    assert header["of"] == unpack(grid)[0]["id"] and header["head"] == 1 * HEADS + 2
    assert header["id"].startswith(header["of"]) and header["id"] != header["of"]
    (length,) = struct.unpack_from("<I", payload)
    assert (4 + length) % 4 == 0  # a Float32Array may start there


def test_a_part_of_a_head_travels_with_its_place_and_tells_what_is_masked() -> None:
    made = mv.load("tiny-gpt2").trace("The cat sat on the mat.")
    grid = grid_payload(made)
    header, weights = head_unpack(head_payload(grid, made, (1, 2), (range(2, 5), range(1, 5))))
    assert header["window"] == [2, 1, 3, 4]
    weights = weights.reshape(3, 4)
    assert np.allclose(weights, made.head(1, 2)[2:5, 1:5], atol=1e-7)
    assert (np.signbit(weights) == ~np.tri(3, 4, 1, dtype=bool)).all()
    whole = head_payload(grid, made, (1, 2))
    assert head_payload(grid, made, (1, 2), tuple(map(range, made.shape[2:]))) == whole
    assert "window" not in head_unpack(whole)[0]


def test_the_weights_from_one_token_travel_for_all_heads() -> None:
    pattern = softmax_rows(LAYERS, HEADS, QUERIES, KEYS)
    made = record(pattern, labels(QUERIES), labels(KEYS))
    grid = grid_payload(made)
    header, weights = head_unpack(row_payload(grid, made, 3))
    assert (header["of"], header["query"]) == (unpack(grid)[0]["id"], 3)
    assert (weights.reshape(LAYERS, HEADS, KEYS) == pattern[:, :, 3]).all()


def test_notes_say_to_which_grid_they_belong() -> None:
    grid = grid_payload(record(softmax_rows(1, 2, 3, 3), labels(3)))
    said, twins = [["Previous token"], []], [(1, 0.25, True), (0, None, None)]
    header, body = unpack(notes_payload(grid, "notes", {"labels": said}))
    assert header["id"] == f"{unpack(grid)[0]['id']} notes" and not body
    assert header["kind"] == "notes" and header["labels"] == said
    header, _ = unpack(notes_payload(grid, "twins", {"twins": twins}))
    assert header["id"] == f"{unpack(grid)[0]['id']} twins"
    assert header["twins"] == [[1, 0.25, True], [0, None, None]]
    with pytest.raises(ValueError):
        notes_payload(
            grid, "twins", {"twins": [float("nan")]}
        )  # no JSON: a browser could not read it


def test_the_header_says_which_tokens_make_a_word() -> None:
    whole = mv.load("tiny-bert").trace("walking homewards, unhappily")
    merged = whole.merge_words()
    assert len(merged.tokens) < len(whole.tokens)
    words = unpack(grid_payload(whole))[0]["words"]
    assert words["query_labels"] == words["key_labels"] == list(merged.labels)
    rows = torch.stack([torch.tensor(words["query"]) == at for at in range(len(merged.tokens))])
    mean = rows.float() / rows.sum(-1, keepdim=True)
    close(mean @ whole.pattern[1, 2] @ rows.float().T, merged.pattern[1, 2])
    # Nothing to merge, or merged already: the switch has nothing to do.
    assert "words" not in unpack(grid_payload(merged))[0]
    assert "words" not in unpack(grid_payload(record(softmax_rows(1, 1, 2, 2), labels(2))))[0]


@pytest.mark.parametrize("cut", [0, 3, 40])
def test_a_cut_payload_is_refused(cut: int) -> None:
    payload = grid_payload(record(softmax_rows(1, 1, 5, 7), labels(5), labels(7)))
    with pytest.raises(ArgumentError):
        unpack(payload[:cut])


def test_a_foreign_header_is_refused() -> None:
    text = json.dumps({"v": 99}).encode()
    with pytest.raises(ArgumentError, match="version"):
        unpack(struct.pack("<I", len(text)) + text)
    assert unpack(pack({"kind": "grid"}, b"x"))[1] == b"x"
