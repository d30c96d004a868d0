"""Alignments by hand, and against the edit distance that they must reach."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.errors import ArgumentError, ShapeError
from tests.making.comparing import close, near


def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        last, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (left != right))
    return row[-1]


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        ("", "", []),
        ("", "x", [(None, 0)]),
        ("xy", "", [(0, None), (1, None)]),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "axc", [(0, 0), (1, 1), (2, 2)]),
        ("ac", "abc", [(0, 0), (None, 1), (1, 2)]),
        ("abc", "ac", [(0, 0), (1, None), (2, 1)]),
        ("a", "bc", [(0, 0), (None, 1)]),
        ("ab", "ba", [(0, None), (1, 0), (None, 1)]),  # one equal token, at no more edits
        ("aa", "a", [(0, 0), (1, None)]),
        # four edits either way: two equal tokens, not one
        ("aab", "bbbaa", [(None, 0), (None, 1), (None, 2), (0, 3), (1, 4), (2, None)]),
    ],
)
def test_by_hand(a: str, b: str, pairs: list[tuple[int | None, int | None]]) -> None:
    assert align(list(a), list(b)) == pairs


def test_case() -> None:
    assert align(["The", "Straße"], ["a", "the", "STRASSE"], ignore_case=True) == [
        (None, 0),
        (0, 1),
        (1, 2),
    ]
    # As they are written, no two are the same, and replacing two and adding one is shortest.
    assert align(["The", "Straße"], ["a", "the", "STRASSE"]) == [(0, 0), (1, 1), (None, 2)]


@given(st.text("abcd", max_size=13), st.text("abcd", max_size=11))
def test_every_place_once_in_order_and_minimal(a: str, b: str) -> None:
    pairs = align(list(a), list(b))
    assert [i for i, _ in pairs if i is not None] == list(range(len(a)))
    assert [j for _, j in pairs if j is not None] == list(range(len(b)))
    assert (None, None) not in pairs
    edits = sum(i is None or j is None or a[i] != b[j] for i, j in pairs)
    assert edits == edit_distance(a, b)


def test_aligned_takes_rows_and_columns() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = aligned(matrix, [1, None, 0], [None, 2])
    assert found.dtype == np.float32
    assert np.array_equal(found, [[np.nan, 5], [np.nan, np.nan], [np.nan, 2]], equal_nan=True)
    square = np.arange(9).reshape(3, 3)
    assert np.array_equal(aligned(square, [2, 0]), [[8.0, 6.0], [2.0, 0.0]])
    assert aligned(torch.ones(2, 2, dtype=torch.bfloat16), [0]).tolist() == [[1.0]]
    assert aligned(square, []).shape == (0, 0)
    for wrong in ([3], [-1]):
        with pytest.raises(ArgumentError, match="3 places"):
            aligned(square, wrong)


def test_change_of_patterns_is_the_mean_total_variation_on_common_axes() -> None:
    generator = torch.Generator().manual_seed(7)
    a = torch.rand(2, 3, 5, 5, generator=generator).softmax(-1)
    b = torch.rand(2, 3, 7, 7, generator=generator).softmax(-1)
    pairs = align(list("abcde"), list("abxcdyz"))
    got = pattern_change(a, b, pairs)
    for layer in range(2):
        for head in range(3):
            rows = []
            for i, j in pairs:
                if i is None or j is None:
                    continue
                total = 0.0
                for k, m in pairs:
                    left = 0.0 if k is None else float(a[layer, head, i, k])
                    right = 0.0 if m is None else float(b[layer, head, j, m])
                    total += abs(left - right) / 2
                rows.append(total)
            assert float(got[layer, head]) == near(sum(rows) / len(rows))
    assert torch.equal(pattern_change(a, a, [(i, i) for i in range(5)]), torch.zeros(2, 3))


def test_change_without_a_common_token_or_of_other_heads() -> None:
    one = torch.eye(2)[None, None]
    assert pattern_change(one, one, [(0, None), (None, 0)]).isnan().all()
    with pytest.raises(ShapeError, match=r"\(1, 1\) and \(2, 1\)"):
        pattern_change(one, torch.cat([one, one]), [(0, 0)])


def test_a_replaced_token_is_a_place_but_not_a_common_token() -> None:
    pairs = align(list("abcd"), list("axCd"))
    assert len(pairs) == 4
    assert equal_places("abcd", "axCd", pairs) == [(0, 0), (3, 3)]
    assert equal_places("abcd", "axCd", pairs, ignore_case=True) == [(0, 0), (2, 2), (3, 3)]
    generator = torch.Generator().manual_seed(7)
    a, b = torch.rand(2, 2, 3, 4, 4, generator=generator).softmax(-1)
    got = pattern_change(a, b, pairs, [(0, 0), (3, 3)])
    want = (a - b).abs().sum(-1)[:, :, [0, 3]].mean(-1) / 2  # all places stand beside each other
    close(got, want)
    assert pattern_change(a, b, pairs, []).isnan().all()
