"""Counts and sizes in words: one decimal unit wherever the product prints bytes."""

import re
from pathlib import Path

import pytest

import mha_viz
from mha_viz.core.amounts import of_bytes

PRODUCT = Path(mha_viz.__file__).parent
BY_HAND = re.compile(r"\{[^{}]*(/|>>)[^{}]*\} ?([kMGT]i?B)\b|\} ?[KMGT]iB")


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


def test_no_module_converts_bytes_by_itself() -> None:
    found = [
        f"{path.relative_to(PRODUCT)}:{number}: {line.strip()}"
        for path in PRODUCT.rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if BY_HAND.search(line)
    ]
    assert not found
