"""The Explore page under links and with odd input: it stays alive, and says what is wrong."""

import pytest

from mha_viz.ui.run import memory
from mha_viz.ui.state import views
from mha_viz.ui.widgets.controls import controls
from tests.making.checkpoints import copy
from tests.ui.explore_app import bench, brought, captions, choose
from tests.ui.explore_app import explore as run


def test_a_choice_that_no_browser_offers_leaves_the_page_alive():
    app = run(text="the cat sat")
    before = app.session_state.view
    for choices in (
        {"layer": 99, "head": 3}, {"head": 8}, {"query": 500, "key": 2}, {"key": 9},
        {"sort": "bogus"}, {"only": "bogus"}, {"heads": ((9, 9), (0, 1)), "show": "lines"},
    ):  # fmt: skip
        app.session_state.view = before
        choose(app, **choices)
        assert not app.exception and not app.error, choices
        view = bench(app)["view"]
        assert view["layer"] < 4 and view["head"] < 8 and view["sort"] == view["only"] == ""
        assert max(view["query"], view["key"]) < 5 and view["heads"] in ([], [[0, 1]])
        assert view["query"] == -1 or "query" not in choices


def test_everything_left_out_is_an_error_in_words():
    app = run(model="tiny-gpt2", text="a", no_first="1")
    assert not app.exception
    assert len(app.error) == 1
    assert app.text_input(key="ask_text").value == "a"


def test_address_of_an_opened_view_is_written_only_where_it_does_not_say_the_view():
    for link in ({"text": "Hello there"}, {"text": "Hello there", "mass": ".9", "layer": "1"}):
        assert dict(run(**link).query_params) == link  # written anew it would take one more Back
    for link in ({"layer": "99"}, {"text": "Hello there", "colour": "red"}):
        written = dict(run(**link).query_params)
        assert written.keys() == {"model", "text", "layer", "head"}
        assert written["text"] == link.get("text", views.DEFAULT.text)
    app = run()
    assert not dict(app.query_params)
    choose(app, layer=2, head=5)
    plain = {"model": "tiny-bert", "text": views.DEFAULT.text}
    assert dict(app.query_params) == plain | {"layer": "2", "head": "5"}


@pytest.mark.parametrize(
    ("link", "n_problems"),
    [
        ({"sort": "bogus", "only": "bogus"}, 2),
        ({"sort": "cka"}, 1),
        ({"sort": "separator_token", "model": "tiny-gpt2"}, 1),
    ],
)
def test_order_or_kind_that_is_not_there_is_a_warning_until_the_next_text(link, n_problems):
    app = run(text="the cat sat", **link)
    assert not app.exception and len(app.warning) == n_problems
    assert bench(app)["view"]["sort"] == bench(app)["view"]["only"] == ""
    app.text_input(key="ask_text").input("the cat ran").run()
    assert not app.warning


def test_text_that_cannot_be_used_keeps_the_page_alive():
    app = run()
    for text, kind in ((" \n\t ", "info"), ("\x00\x07", "error"), ("x" * 1_300_000, "error")):
        app.text_input(key="ask_text").input(text).run()
        assert not app.exception and len(getattr(app, kind)) == 1
        assert kind == "error" or not app.error
    app.text_input(key="ask_text").input("北京是中国的首都").run()  # largely unknown to the model
    (warning,) = app.warning
    parts = list(app.main)
    grid = next(part for part in parts if part.type == "bidi_component" and "grid" in part.proto.id)
    assert not app.exception and not app.error and parts.index(warning) < parts.index(grid)
    app.text_input(key="ask_text").input("a good sentence").run()
    assert not app.error and not app.warning and brought(app, "grid")


def test_folder_is_checked_once_and_its_errors_leave_the_text(folder, tmp_path, monkeypatch):
    prepared, checked, check = [], [], memory.check
    monkeypatch.setattr(controls.trial, "prepare", lambda: prepared.append("trial"))
    monkeypatch.setattr(memory, "check", lambda name: (checked.append(name), check(name)))
    (tmp_path / "config.json").write_text("{")
    local = str(copy(folder, tmp_path / "own"))
    app = run(text="my own words")
    app.selectbox(key="ask_device").select("mps").run()
    assert not app.exception and len(app.error) == 1 and "mps" in app.error[0].value
    app.selectbox(key="ask_device").select("cpu")
    assert not checked and not prepared  # a shipped model needs no trial
    for typed in ("no/such/folder", str(tmp_path), local):
        app.selectbox(key="ask_model").select("Another model …").run()
        assert prepared  # while the name is typed
        app.text_input(key="ask_other").input(typed).run()
        assert not app.exception and len(app.error) == (typed != local)
        assert app.text_input(key="ask_text").value == "my own words"
    assert memory.size_line(local, "float32") in captions(app)
    app.text_input(key="ask_text").input("other words").run()
    assert checked.count(local) == 1 and not app.error
