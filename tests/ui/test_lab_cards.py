"""The first page of Learn shows what each lab looks like."""

import io

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from docs import make_lab_pictures
from mha_viz.learn import page as learn_page
from mha_viz.learn.frame.contents import BY_KEY, LABS, ROUTES, START, Lab
from mha_viz.ui.pages import PAGES
from mha_viz.ui.widgets import look
from tests.ui.compare_app import check

KINDS = pytest.mark.parametrize("dark", [False, True])
EVERY = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)


def opened(lab: Lab, dark: bool) -> Image.Image:
    return Image.open(io.BytesIO(learn_page.picture(lab, dark=dark)))


@KINDS
@EVERY
def test_a_picture_is_of_the_cards_size_and_shows_something(lab: Lab, dark: bool) -> None:
    picture = opened(lab, dark)
    assert (picture.format, picture.mode, picture.size) == ("PNG", "P", learn_page.SIZE)
    counts = sorted(count for count, _ in picture.getcolors())
    assert len(counts) > 8 and sum(counts[:-1]) > 0.02 * sum(counts)  # beside its background


@EVERY
def test_a_picture_is_light_on_light_pages_and_dark_on_dark_ones(lab: Lab) -> None:
    light, dark = (opened(lab, dark).convert("L").getpixel((0, 0)) for dark in (False, True))
    assert light > 240 and dark < 40


def test_there_is_a_picture_for_each_lab_and_they_are_small() -> None:
    kept = {path.name: path.stat().st_size for path in learn_page.FOLDER.iterdir()}
    schemes = make_lab_pictures.SCHEMES
    assert kept.keys() == {f"{lab.key}-{scheme}.png" for lab in LABS for scheme in schemes}
    assert sum(kept.values()) <= 200_000
    assert make_lab_pictures.SHOTS.keys() == {lab.key for lab in LABS}


def test_figures_stand_side_by_side_undistorted() -> None:
    figures = [Image.new("RGB", (300, 100), colour) for colour in ("#fcfcfd", "black")]
    made = Image.open(io.BytesIO(make_lab_pictures.small(figures)))
    assert made.size == learn_page.SIZE
    assert made.convert("RGB").getpixel((0, 0)) == (252, 252, 253)  # its edges are not seen
    made = made.convert("L")
    left, top, right, bottom = made.point(lambda value: 255 * (value < 128)).getbbox()
    assert left > learn_page.SIZE[0] / 2
    assert (right - left) / (bottom - top) == pytest.approx(3, rel=0.1)


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn import page as learn
    from mha_viz.learn.frame.contents import LABS

    paths = ["learn", "start", "teach", "glossary", *(lab.address for lab in LABS)]
    st.session_state.pages = {path: st.Page(learn.index, url_path=path) for path in paths}
    st.navigation(list(st.session_state.pages.values())).run()


@KINDS
def test_the_page_shows_them_with_words_for_who_does_not_see_them(dark, monkeypatch) -> None:
    monkeypatch.setattr(look, "dark", lambda: dark)
    app = AppTest.from_function(_page, default_timeout=300).run()
    check(app)
    said = [picture.proto.imgs[0].alt for picture in app.get("image")]
    assert said == [lab.pictured for lab in LABS]
    links = [link.proto.label for link in app.get("page_link")]
    for number, lab in enumerate(LABS, 1):
        assert f"**{number}. {lab.title}**" in links


def test_a_route_takes_as_long_as_it_says_and_keeps_the_order_of_the_labs() -> None:
    for route in ROUTES:
        labs = [BY_KEY[key] for key in route.labs]
        minutes = START.minutes + sum(lab.minutes for lab in labs)
        assert 0.8 * route.minutes <= minutes <= route.minutes * 1.1, route
        assert labs == sorted(labs, key=LABS.index)


@EVERY
def test_a_lab_asks_a_question_and_says_what_was_learned_and_what_comes_next(lab: Lab) -> None:
    assert lab.about.endswith("?") and 2 <= len(lab.learned) <= 4
    assert 2 <= len(lab.next) <= 3 and set(lab.next) <= {*BY_KEY, *PAGES} - {lab.key}
