"""The number of a run that ends: pages that stop or fail have one, superseded runs have none."""

import pytest
from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.operating.streamlit_run import end_run
    from mha_viz.ui.run.ready import fragment, run_mark

    with run_mark():
        if st.button("again"):
            st.rerun()
        fragment(lambda: st.text("part"))()
        if st.button("stop"):
            end_run()
        if st.button("fail"):
            raise ValueError("a fault")


@pytest.mark.parametrize("button", [None, "stop", "fail", "again"])
def test_run_mark_whole_run_is_counted_once(button: str | None) -> None:
    page = AppTest.from_function(_page).run()
    assert page.session_state.session.runs == 1
    if button is not None:
        next(each for each in page.button if each.label == button).click()
    page.run()
    assert page.session_state.session.runs == 2
