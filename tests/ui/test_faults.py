"""An error is a sentence, wherever it is raised: on the page or in a widget's callback."""

import ast
import errno
import re
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from mha_viz.corpus.store.lock import LOCK
from mha_viz.errors import LimitError, TextError, WriteError
from mha_viz.ui.operating import log_redaction
from mha_viz.ui.run import studies
from mha_viz.ui.state import faults
from mha_viz.ui.widgets.messages.notices import plain
from tests.faults.disk import full_disk

UI = Path(faults.__file__).parents[1]
_CALLBACK = re.compile("on_(click|select|(\\w+_)?change)")


def test_our_errors_are_said_and_others_named(caplog):
    assert faults.sentence(TextError("Type a sentence.")) == "Type a sentence."
    assert faults.sentence(MemoryError()) and not caplog.records
    turned = "“\u202egpt\x1b[2J\u2069”"  # as somebody may have typed it
    for shown in (faults.sentence(TextError(turned)), plain(turned)):
        assert "202E" in shown and not set("\u202e\x1b\u2069") & set(shown)
    assert "/srv" not in faults.sentence(FileNotFoundError(errno.ENOENT, "No such file", "/srv/x"))
    caplog.clear()
    assert not caplog.records
    assert "KeyError" in faults.sentence(KeyError("secret"))
    assert "secret" not in faults.sentence(KeyError("secret"))
    assert "secret" in caplog.text  # the server's log has what the page has not


def test_a_public_log_has_messages_of_torch_and_of_ours_without_what_they_quote():
    with pytest.raises(RuntimeError) as raised:
        torch.nn.Linear(2, 3)(torch.zeros(1, 5))
    assert "1x5 and 2x3" in log_redaction._traceback_lines(raised.value)[0]
    for quoted in ("“Xylophone”", "'Xylophone'", '"Xylophone"'):
        (line,) = log_redaction._traceback_lines(LimitError(f"There is no room for {quoted} now."))
        assert "no room for … now" in line and "Xylophone" not in line
    for other in (KeyError("Xylophone"), TextError("Xylophone"), RuntimeError("Xylophone")):
        assert "Xylophone" not in "".join(log_redaction._traceback_lines(other))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/srv/here"),
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/srv/here']"),
        WriteError("/srv/here cannot be written."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_disk_does_not_take_is_said_without_its_place(error, caplog):
    assert "disk" in faults.sentence(error) and "/srv" not in faults.sentence(error)
    assert "/srv/here" in caplog.text


def test_texts_that_the_disk_does_not_take_leave_no_half_of_them():
    """Leave room for a few bytes only, as on a disk that is nearly full."""
    kept = studies.Studies()
    with full_disk(100), pytest.raises(WriteError) as raised:
        kept.add_texts(b"A text.\n" * 1000, "texts.txt")
    assert "disk" in faults.sentence(raised.value)
    assert kept.titles() == {}
    assert [path.name for path in kept._folder.rglob("*") if path.is_file()] == [LOCK]
    assert kept.add_texts(b"A text.\n" * 1000, "texts.txt") in kept.titles()  # once there is room


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.state.faults import guarded
    from mha_viz.ui.widgets.messages.notices import stop_on_error

    @guarded
    def fall(what: str) -> None:
        raise KeyError(what)

    with stop_on_error():
        st.button("Fall", on_click=fall, args=("a secret",))
        st.markdown("The page goes on.")


def test_an_error_in_a_callback_is_a_sentence_on_the_next_page_and_gone_after_it():
    app = AppTest.from_function(_page).run()
    app.button[0].click().run()
    assert not app.exception
    assert len(app.error) == 1 and "KeyError" in app.error[0].value
    assert "secret" not in app.error[0].value
    assert [part.value for part in app.markdown] == ["The page goes on."]
    assert not app.run().error


def test_every_callback_of_a_widget_is_guarded():
    """Find all that Streamlit calls: `guarded` makes it; strings are modes, names our own parts."""
    unguarded = []
    for path in sorted(UI.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        safe = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and _is_guarded(node)
        }
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not _is_streamlits(call.func):
                continue
            for word in call.keywords:
                if _CALLBACK.fullmatch(word.arg or "") and not _is_safe(word.value, safe):
                    unguarded.append(f"{path.relative_to(UI)}:{word.value.lineno}")
    assert not unguarded


def _is_guarded(node: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "guarded" for one in node.decorator_list)


def _is_streamlits(function: ast.expr) -> bool:
    """st.button, button.button, or a component of ours (_grid, _tables ...)."""
    if isinstance(function, ast.Attribute):
        ours = ("charts", "figures", "frame")  # they guard what they are given
        return isinstance(function.value, ast.Name) and function.value.id not in ours
    return isinstance(function, ast.Name) and function.id.startswith("_")


def _is_safe(value: ast.expr, safe: set[str]) -> bool:
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.IfExp):
        return _is_safe(value.body, safe) and _is_safe(value.orelse, safe)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("guarded", "_listener")  # which hands out a guarded one
    return isinstance(value, ast.Name) and (value.id in safe or value.id == "_nothing")


def _messages() -> None:
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
    app = AppTest.from_function(_messages, default_timeout=300).run()
    (error,) = app.error
    assert "PanicException" in error.value
    assert not app.exception and not app.markdown
    app.radio[0].set_value("stop").run()
    assert not app.error and not app.exception and not app.markdown
    app.radio[0].set_value("rerun").run()
    assert not app.error and [one.value for one in app.markdown] == ["the end of the page"]
    assert app.session_state.runs == 1
