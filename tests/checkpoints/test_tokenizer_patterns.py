"""Patterns that could match in a cube of the text's length are refused."""

import pytest

from mha_viz.checkpoints.tokenizer_patterns import PatternError, check_pattern


@pytest.mark.parametrize(
    ("pattern", "loops"),
    [("a+", 0), ("a*b+", 1), ("a+b*c?", 0), ("a+(?:b|c)", 1), ("(?:a+b)?", 1), ("a+(?!b)", 1)],
)
def test_check_pattern_counts_repeats_before_what_can_fail(pattern: str, loops: int) -> None:
    assert check_pattern(pattern).loops == loops


@pytest.mark.parametrize(
    "pattern", ["a+a+b", "a*(?:b*c|d)", "(?:a+){2}b", "(?=a+)a+b", "a+(?:b+c)?d"]
)
def test_check_pattern_of_two_repeats_before_what_can_fail_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="repeats without end come before what can fail"):
        check_pattern(pattern)
