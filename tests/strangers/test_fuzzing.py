"""The same cases every day."""

from hypothesis import given
from hypothesis import strategies as st

from tests.strangers.fuzzing import LONG, fuzzed


def drawn() -> list[str]:
    cases: list[str] = []

    @fuzzed(daily=20, long=40)
    @given(st.text())
    def draw(text: str) -> None:
        cases.append(text)

    draw()
    return cases


def test_cases_are_the_same_each_day_and_new_ones_at_length() -> None:
    assert len(drawn()) == (40 if LONG else 20)
    assert LONG or drawn() == drawn()
