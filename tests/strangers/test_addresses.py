"""Strangers' addresses: a page that stands, a word for what was left out, an address that holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from mha_viz.ui.state.link_values import text_hash
from mha_viz.ui.state.links import from_params, long_values, to_params
from mha_viz.ui.state.views import NAMES, View
from tests.strangers.addresses import PAGES, TOOLS, Address, addresses, last, opened, values, worst
from tests.strangers.fuzzing import LONG, fuzzed
from tests.strangers.shown import alive

_FOREIGN = re.compile(r"Traceback|object at 0x|site-packages|File \"")


def stands(app: AppTest) -> None:
    """Nothing was raised, and what is said of errors are sentences."""
    assert not app.exception, app.exception[0].value
    for told in (*app.error, *app.warning, *app.info):
        assert 0 < len(told.value) < 2000, told.value
        assert not _FOREIGN.search(told.value), told.value


def shows_texts_alone(app: AppTest) -> None:
    """The page stands, and nothing hostile on it would be read as markup."""
    stands(app)
    assert not alive(app)


def said(app: AppTest) -> str:
    """The warnings as they are read, without what keeps Streamlit from reading markup in them."""
    text = "\n".join(warning.value for warning in app.warning)
    return text.replace("\\", "").replace("\u2060", "")


def holds(page: str, address: Address) -> None:
    """The page stands, tells of all that it left out, and its new address opens the same view."""
    app = opened(page, address)
    stands(app)
    if page in TOOLS:
        assert app.header or app.title or app.text_input or app.text_area
        told = said(app)
        for problem in from_params(last(address))[1]:
            assert problem.replace("\\", "").replace("\u2060", "") in told, problem
        if not app.error:
            found, problems = from_params(last(app.query_params))
            shown, told = to_params(app.session_state["view"]), to_params(found)
            assert not problems
            assert told.items() <= shown.items()
            # An address that names no head is by the one that tells most, and stays as it is.
            assert shown.keys() - told.keys() <= {"layer", "head", "layer_b", "head_b"}


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), values))
@example({"text_b": "é" * 1_501})
@fuzzed(daily=40, long=10_000)
def test_a_view_of_any_address_can_be_written_and_read_again(said: dict[str, str]) -> None:
    view, problems = from_params(said)
    assert isinstance(view, View)
    assert all(len(problem) < 600 for problem in problems)
    kept = {text_hash(text): text for text in long_values(view)}
    assert from_params(to_params(view), stored=kept.get) == (view, [])


@pytest.mark.parametrize("page", PAGES)
def test_all_names_at_once(page: str) -> None:
    holds(page, worst(page))


@pytest.mark.skipif(not LONG, reason="one page after the other, for an hour: make fuzz")
@given(addresses())
@fuzzed(daily=1, long=2000)
def test_any_address(case: tuple[str, Address]) -> None:
    holds(*case)
