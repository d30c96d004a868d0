"""One lab's page as an app of its own, and what stands on it."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.ui.run import memory
from tests.ui.compare_app import check

RUNS = ("mha_viz.engine.model.AttentionModel.trace", "mha_viz.ui.run.reporting.make_report")


def _page(key: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn import page as learn
    from mha_viz.learn.frame.contents import BY_KEY

    learn.page(BY_KEY[key])()


def lab(key: str, *open_tables: str, **params: str) -> AppTest:
    """The lab's page under a link, with the tables of these figures open."""
    app = AppTest.from_function(_page, args=(key,), default_timeout=300)
    for name, value in params.items():
        app.query_params[name] = value
    for table in open_tables:
        app.session_state[f"{key}-{table}-table"] = True
    return app.run()


def heavy(monkeypatch: pytest.MonkeyPatch, *places: str) -> list[str]:
    """What of these heavy functions, of runs of a model and of reports is called from now on."""
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


def takes_for_any(monkeypatch: pytest.MonkeyPatch, model: object) -> None:
    """Pages run this model, whatever it is called; what it leaves is for this test alone."""
    monkeypatch.setattr(memory, "model", lambda *args: model)
    monkeypatch.setattr(memory, "stored_run", lambda *args: None)  # nothing stands in for it
    own = memory.Cache()
    monkeypatch.setattr(memory, "cache", lambda: own)


def warns_of(key: str, *folds: str, **params: str) -> None:
    """Each of these is not valid in a link: the lab, with folds open, warns of it by name."""
    app = lab(key, **dict.fromkeys(folds, "1"), **params)
    text = check(app)
    for name in params:
        assert name in text, name
    assert len(app.warning) == len(params), [warning.value for warning in app.warning]


def answers(key: str, *questions: str, **params: str) -> list[str]:
    """What the lab says once these questions are answered with what is chosen to begin with."""
    app = lab(key, **params)
    for question in questions:
        app.button(key=f"{key}-predict-{question}-button").click()
    check(app.run())
    return [info.value for info in app.info]


def link(app: AppTest) -> dict[str, str]:
    """What the address says now."""
    return {
        name: value if isinstance(value, str) else value[-1]
        for name, value in app.query_params.items()
    }
