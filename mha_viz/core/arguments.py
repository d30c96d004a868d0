"""Checks of arguments, and old names that warn.

Each check raises an ArgumentError that says what was expected and what came.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mha_viz.errors import ArgumentError

Choice = TypeVar("Choice", bound=str)
_Class = TypeVar("_Class", bound=type[Any])


def check_whole_number(name: str, number: object, low: int, high: int) -> None:
    """Check that an argument is a whole number in low..high."""
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ArgumentError(f"{name} must be a whole number in {low}..{high}, got {number!r}.")


def check_index(name: str, value: object, n: int, first: int = 0) -> None:
    """Check that a whole number is one of n from `first` on."""
    last = first + n - 1
    if isinstance(value, bool) or not isinstance(value, int) or not first <= value <= last:
        raise ArgumentError(f"{name} must lie in {first}..{last}, got {value!r}.")


def one_of(name: str, value: object, choices: tuple[Choice, ...]) -> Choice:
    """Return the one of the known values that was given."""
    match = next((choice for choice in choices if choice == value), None)
    if match is None:
        raise ArgumentError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
    return match


def renamed(**new_names: str) -> Callable[[_Class], _Class]:
    """Keep the old names of a class's attributes: reading one warns, and gives the new one's value.

    >>> renamed(kept="mask")(type("Circuit", (), {"mask": 7}))().kept
    7
    """

    def read(old: str, new: str, instance: Any) -> Any:
        message = f"{type(instance).__name__}.{old} is called {new} now."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(instance, new)

    def add_old_names(target: _Class) -> _Class:
        for old, new in new_names.items():
            setattr(target, old, property(partial(read, old, new)))
        return target

    return add_old_names
