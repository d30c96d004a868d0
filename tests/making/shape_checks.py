"""Checks of shapes and types at the first calls of every function in each test, and now and then.

A check takes many times as long as what a small function does. Of a function that one test calls
thousands of times, the calls after the first few are checked one in `EVERY`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping

FIRST, EVERY = 5, 19
_jaxtyped: Callable[..., Any] = jaxtyping.jaxtyped
_test = 0  # number of the test that runs


def next_test() -> None:
    """Check the first calls of all functions anew."""
    global _test
    _test += 1


def jaxtyped(*args: Any, **kwargs: Any) -> Any:
    """Decorate as `jaxtyping.jaxtyped`, which pytest's import hook calls by that name, does."""
    decorate = _jaxtyped(*args, **kwargs)
    return decorate if args else lambda thing: _decorated(thing, decorate)  # args: not by the hook


def _decorated(thing: Any, decorate: Callable[[Any], Any]) -> Any:
    if inspect.isfunction(thing):
        return _seldom(thing, lambda: decorate(thing))
    if not inspect.isclass(thing):
        return decorate(thing)
    plain = thing.__init__  # type: ignore[misc]
    checked = decorate(thing)
    if (init := checked.__init__) is not plain:  # of a dataclass, whose fields are checked there
        checked.__init__ = _seldom(plain, lambda: init)
    return checked


def _seldom(plain: Callable[..., Any], check: Callable[[], Callable[..., Any]]) -> Any:
    """Return a function that is checked in some calls; `check` makes it at the first of these."""
    checked: Callable[..., Any] | None = None
    seen, n_calls = -1, 0

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked, seen, n_calls
        if seen != _test:
            seen, n_calls = _test, 0
        n_calls += 1
        if n_calls > FIRST and n_calls % EVERY:
            return plain(*args, **kwargs)
        if checked is None:
            checked = check()
        return checked(*args, **kwargs)

    return call


def install() -> None:
    """Take the place of jaxtyping's decorator for all modules that are imported from now on."""
    jaxtyping.jaxtyped = jaxtyped
