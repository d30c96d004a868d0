"""Checks of arguments: each raises an ArgumentError that says what was expected and what came."""

from typing import TypeVar

from mha_viz.errors import ArgumentError

Choice = TypeVar("Choice", bound=str)


def check_whole_number(name: str, number: object, low: int, high: int) -> None:
    """Check that an argument is a whole number in low..high."""
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ArgumentError(f"{name} must be a whole number in {low}..{high}, got {number!r}.")


def check_index(name: str, given: object, n: int, first: int = 0) -> None:
    """Check that a whole number is one of n from `first` on."""
    last = first + n - 1
    if isinstance(given, bool) or not isinstance(given, int) or not first <= given <= last:
        raise ArgumentError(f"{name} must lie in {first}..{last}, got {given!r}.")


def one_of(name: str, given: object, known: tuple[Choice, ...]) -> Choice:
    """Return the one of the known values that was given."""
    found = next((one for one in known if one == given), None)
    if found is None:
        raise ArgumentError(f"{name} must be one of {', '.join(known)}; got {given!r}.")
    return found
