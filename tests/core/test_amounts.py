"""Counts and sizes in words: one decimal unit wherever the product prints bytes."""

import pytest

from mha_viz.core.amounts import of_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (997, "997 bytes"),
        (2**20, "1.05 MB"),
        (11_943_936, "11.9 MB"),
        (999_600, "1 MB"),
        (2_200_119_864, "2.2 GB"),
    ],
)
def test_of_bytes_writes_three_digits_in_decimal_units(size: int, text: str) -> None:
    assert of_bytes(size) == text
