"""Patching and Read as words, without a browser: their numbers are the library's own."""

import pytest

import mha_viz as mv
from mha_viz.ui.circuits import patching, weights
from mha_viz.web.theme import format_number
from tests.making.comparing import close
from tests.ui.circuits_app import TEXT, circuits
from tests.ui.compare_app import check, said, table

OTHER = "The cat saw the bird. The cat saw the"
PATCHED = dict(model="tiny-gpt2", circuit="patching", text=TEXT, target="dog", against="bird")
WORDS = dict(model="tiny-gpt2", circuit="words", text=TEXT, layer="1", head="2")


def test_maps_are_the_librarys_in_both_directions():
    app = circuits("patching_residual", "patching_heads", source=OTHER, **PATCHED)
    check(app)
    for direction in ("denoise", "noise"):
        for part, columns in (("residual", ("position", "share")), ("heads", ("head", "share"))):
            found = mv.patching_map(
                *(mv.load("tiny-gpt2"), TEXT, OTHER, "logit_difference", part, direction),
                target="dog",
                against="bird",
            )
            close(table(app, *columns)["share"], found.share.ravel())
        assert f"Corrupted, it is **{format_number(found.corrupt)}**" in said(app)
        if direction == "denoise":
            app.segmented_control(key="ask_direction").set_value("noise").run()
            check(app)
    assert app.query_params["direction"] == "noise"


def test_without_a_corrupted_text_two_words_are_swapped_and_equal_texts_have_no_share():
    app = circuits("patching_mlp", **PATCHED)
    check(app)
    swapped = app.text_input(key="ask_source").placeholder
    assert swapped.startswith("(none: ") and sorted(swapped[7:-1]) == sorted(TEXT)
    app.text_input(key="ask_source").set_value(TEXT).run()
    assert not app.exception and "would be noise" in said(app)
    assert "share" not in table(app, "position", "effect")
    app.text_input(key="ask_source").set_value("The cat").run()
    assert "as many tokens" in app.error[0].value
    app = circuits(model="tiny-gpt2", circuit="patching", text="the the the the")
    assert "Type a corrupted text" in app.info[0].value


@pytest.mark.extended
@pytest.mark.parametrize(
    ("module", "link", "button"),
    [(patching, PATCHED, "measure_patching"), (weights, WORDS, "find_pairs")],
)
def test_long_work_waits_for_a_click(monkeypatch, module, link, button):
    monkeypatch.setattr(module, "AT_ONCE", 0.0)
    app = circuits(**link)
    assert not app.exception and "on this machine" in said(app) + app.info[0].value
    app.button(key=button).click().run()
    check(app)
    assert not app.info


def test_pairs_directions_and_words_are_the_librarys():
    app = circuits("OV", **WORDS)
    check(app)
    model = mv.load("tiny-gpt2")
    found = mv.head_vocabulary(model, 1, 2)
    assert [one.value[:5] for one in app.header] == ["What ", "What "]
    shown = {name: table(app, name, "strength") for name in ("query", "looked at")}
    close(shown["query"]["strength"], found.circuits["QK"].pairs.strength)
    close(shown["looked at"]["to"], found.circuits["OV"].pairs.chance_high)
    directions = table(app, "singular value", "raised")
    assert directions["raised"].tolist() == found.circuits["OV"].directions.destination.tolist()
    app.text_input(key="ask_listed").set_value("cat, dog bird").run()
    check(app)
    assert app.query_params["listed"] == "cat, dog bird"
    matrix = mv.token_matrices(model, 1, 2, ["cat", "dog", "bird"])["OV"]
    close(table(app, "0:cat", "1:dog")["1:dog"], matrix["dog"])


def test_a_word_of_several_tokens_is_named_and_a_masked_model_has_qk_alone():
    app = circuits(**WORDS, listed="cat zyxwvut")
    assert not app.exception and "zyxwvut" in app.error[0].value
    app = circuits(model="tiny-bert", circuit="words", text=TEXT)
    assert not app.exception and not app.error  # one of its tokens is "inf"
    assert len(app.header) == 1 and "There is no OV circuit" in said(app)
