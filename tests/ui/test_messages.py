"""An error on a page: a sentence, the page at its end, and Streamlit's own signals left alone."""

from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st
    from tokenizers import Regex, normalizers

    from mha_viz.ui.widgets.messages.notices import stop_on_error

    chosen = st.radio("what", ["panic", "stop", "rerun"])
    with stop_on_error():
        if chosen == "panic":
            normalizers.Replace(Regex("(z+)+$"), "").normalize_str("z" * 40 + "!")
        elif chosen == "stop":
            st.stop()
        elif st.session_state.setdefault("runs", 0) == 0:
            st.session_state.runs = 1
            st.rerun()
    st.write("the end of the page")


def test_a_panic_ends_the_run_with_a_sentence_and_streamlits_own_signals_pass():
    app = AppTest.from_function(_page, default_timeout=300).run()
    (error,) = app.error
    assert "PanicException" in error.value
    assert not app.exception and not app.markdown
    app.radio[0].set_value("stop").run()
    assert not app.error and not app.exception and not app.markdown
    app.radio[0].set_value("rerun").run()
    assert not app.error and [one.value for one in app.markdown] == ["the end of the page"]
    assert app.session_state.runs == 1
