"""One lab's page as an app of its own, and what stands on it."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.opening import open_tables, opened

RUNS = ("mha_viz.engine.model.AttentionModel.trace", "mha_viz.ui.run.reporting.make_report")


def _page(key: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn import page as learn
    from mha_viz.learn.frame.contents import BY_KEY

    learn.page(BY_KEY[key])()


def lab(key: str, *tables: str, **params: str) -> AppTest:
    """The lab's page under a link, with the tables of these figures open."""
    session = open_tables(*(f"{key}-{table}" for table in tables))
    return opened(_page, key, session=session, **params)


def count_heavy_calls(monkeypatch: pytest.MonkeyPatch, *places: str) -> list[str]:
    """Return a list that grows by each call of these functions, of model runs and of reports."""
    calls: list[str] = []

    def counted(place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            calls.append(place)
            return function(*args, **options)

        return count

    for place in (*RUNS, *places):
        monkeypatch.setattr(place, counted(place, resolve_name(place)))
    return calls


@contextmanager
def done_once(*places: str) -> Iterator[None]:
    """Within it, these functions train or measure once for the same arguments.

    What a page has trained is what a test gets that asks the library for the same; with any other
    argument than the page's it gets something else.
    """
    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.setattr(place, _remembering(resolve_name(place)))
        yield


def _remembering(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; tensors and lists are told apart by being the same object."""
    signature, known = inspect.signature(function), {}

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options)
        given.apply_defaults()
        asked = {k: v for k, v in given.arguments.items() if k not in ("on_step", "on_progress")}
        key = tuple(
            v if isinstance(v, int | float | str | tuple) else id(v) for v in asked.values()
        )
        if key not in known:
            known[key] = function(*args, **options), asked  # which keeps the objects, and their ids
        return known[key][0]

    return call


def link(app: AppTest) -> dict[str, str]:
    """Return the address as it is now."""
    return {
        name: value if isinstance(value, str) else value[-1]
        for name, value in app.query_params.items()
    }
