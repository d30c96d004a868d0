"""The menu of models offers some that are not here, and fetches one when it is asked to."""

import pytest
from huggingface_hub import constants
from streamlit.testing.v1 import AppTest

from mha_viz.checkpoints import catalog
from mha_viz.checkpoints.catalog import SuggestedModel
from mha_viz.checkpoints.download import under_way
from mha_viz.core.amounts import of_bytes
from mha_viz.ui.widgets.controls.model_menus import OTHER
from tests.making import fake_hub
from tests.making.fake_hub import NAME
from tests.ui.opening import opened
from tests.waiting import wait_for

WEIGHTS = "model.safetensors"


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.state import selection
    from mha_viz.ui.widgets.controls import fetching, model_menus
    from mha_viz.ui.widgets.messages import notices

    selection.sync_from_url()
    model_menus.model_picker()
    model_menus.other_model()
    fetching.draw()
    notices.problems()
    st.markdown(selection.current().model)


def page(**params: str) -> AppTest:
    return opened(_page, **params)


@pytest.fixture
def hub(served, monkeypatch):
    """A Hub, one of whose models is suggested."""
    one = SuggestedModel(NAME, "a tiny BERT with random weights", 12_000_000)
    monkeypatch.setattr(catalog, "SUGGESTED", (one,))
    return served


def chosen(app: AppTest) -> str:
    assert not app.exception
    return app.markdown[-1].value


def check_arrives(app: AppTest) -> None:
    app.session_state.session.attempt.wait()
    app.run()
    assert chosen(app) == NAME == app.selectbox(key="ask_model").value
    assert not app.error and "download" not in [button.key for button in app.button]


def half_of_it(app: AppTest, hub) -> None:
    """Begin to fetch from a Hub that falls silent in the middle of the weights."""
    hub.faults[WEIGHTS] = fake_hub.slow
    app.selectbox(key="ask_model").select(NAME).run()
    app.button(key="download").click().run()
    half = (hub.folder / WEIGHTS).stat().st_size // 2
    attempt = app.session_state.session.attempt
    wait_for(lambda: not attempt.running or attempt.done >= half, "half of the weights")
    assert attempt.done == half
    app.run()


def test_a_model_that_is_not_here_is_told_of_and_nothing_is_asked(hub):
    app = page()
    assert any("12 MB" in option for option in app.selectbox(key="ask_model").options)
    app.selectbox(key="ask_model").select(NAME).run()
    assert chosen(app) == "tiny-bert"  # which stays on the page meanwhile
    assert "12 MB" in app.caption[0].value and app.button(key="download")
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert chosen(app) == "tiny-gpt2" and not app.caption and not app.button
    assert hub.asked == []


def test_it_shows_how_far_it_is_and_goes_on_after_a_stop(hub):
    app = page()
    half_of_it(app, hub)
    (bar,) = app.get("progress")
    assert 0 < bar.proto.value < 100 and "fetched\\-bert" in bar.proto.text
    app.button(key=f"stop-{NAME}").click().run()
    assert not under_way()
    half = (hub.folder / WEIGHTS).stat().st_size // 2
    assert of_bytes(half) in app.caption[-1].value and chosen(app) == "tiny-bert"
    hub.faults.clear()
    hub.closing.set()
    app.button(key="download").click().run()
    check_arrives(app)
    assert hub.begun == [(WEIGHTS, (hub.folder / WEIGHTS).stat().st_size // 2)]


def test_another_visitor_sees_it_and_shares_it(hub):
    half_of_it(page(), hub)  # and leaves
    other = page()
    assert [button.key for button in other.button] == [f"stop-{NAME}"]
    (found,) = under_way()
    other.selectbox(key="ask_model").select(NAME).run()
    assert [button.key for button in other.button] == [f"stop-{NAME}"] and under_way() == [found]
    other.button(key=f"stop-{NAME}").click().run()
    assert found.stopped and not under_way()


def test_without_network_it_says_so_in_a_sentence_and_can_be_tried_again(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    app = page()
    app.selectbox(key="ask_model").select(NAME).run()
    app.button(key="download").click().run()
    wait_for(lambda: not app.session_state.session.attempt.running, "the end of the attempt")
    app.run()
    assert len(app.error) == 1
    assert chosen(app) == "tiny-bert" and hub.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    app.button(key="download").click().run()
    check_arrives(app)


def test_a_name_that_is_typed_is_fetched_in_the_same_way(served):
    app = page()
    app.selectbox(key="ask_model").select(OTHER).run()
    app.text_input(key="ask_other").input(NAME).run()
    assert not app.text_input
    check_arrives(app)


def test_a_typed_name_that_can_be_no_models_is_refused_at_once(served):
    app = page()
    app.selectbox(key="ask_model").select(OTHER).run()
    app.text_input(key="ask_other").input("no/such/folder").run()
    assert len(app.error) == 1
    assert served.asked == [] and app.text_input(key="ask_other").value == "no/such/folder"


def test_a_link_offers_a_suggested_model_and_fetches_nothing(hub):
    app = page(model=NAME)
    assert chosen(app) == "tiny-bert" and app.button(key="download") and len(app.warning) == 1
    assert hub.asked == [] and not under_way()
