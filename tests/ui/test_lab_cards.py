"""The first page of Learn shows what each lab looks like."""

import io

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from mha_viz.learn import page as learn_page
from mha_viz.learn.frame.contents import BY_KEY, LABS, ROUTES, START, Lab
from mha_viz.ui.widgets import look
from tests.ui.compare_app import check

KINDS = pytest.mark.parametrize("dark", [False, True])
EVERY = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)


@KINDS
@EVERY
def test_picture_of_a_lab_has_its_size_and_background_and_shows_something(
    lab: Lab, dark: bool
) -> None:
    picture = Image.open(io.BytesIO(learn_page.picture(lab, dark=dark)))
    assert (picture.format, picture.mode, picture.size) == ("PNG", "P", learn_page.SIZE)
    assert (picture.convert("L").getpixel((0, 0)) < 128) == dark
    counts = sorted(count for count, _ in picture.getcolors())
    assert len(counts) > 8 and sum(counts[:-1]) > 0.02 * sum(counts)  # beside its background


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn import page as learn
    from mha_viz.learn.frame.contents import LABS

    paths = ["learn", "start", "teach", "glossary", *(lab.address for lab in LABS)]
    st.session_state.pages = {path: st.Page(learn.index, url_path=path) for path in paths}
    st.navigation(list(st.session_state.pages.values())).run()


@KINDS
def test_learn_links_to_each_lab_with_a_described_picture(dark, monkeypatch) -> None:
    monkeypatch.setattr(look, "dark", lambda: dark)
    app = AppTest.from_function(_page, default_timeout=300).run()
    check(app)
    described = [picture.proto.imgs[0].alt for picture in app.get("image")]
    assert described == [lab.pictured for lab in LABS]
    links = {link.proto.page for link in app.get("page_link")}
    assert {lab.address for lab in LABS} <= links
    assert {path.name for path in learn_page.FOLDER.iterdir()} == {
        f"{lab.key}-{scheme}.png" for lab in LABS for scheme in ("light", "dark")
    }


def test_route_takes_its_minutes_and_keeps_the_order_of_the_labs() -> None:
    for route in ROUTES:
        labs = [BY_KEY[key] for key in route.labs]
        minutes = START.minutes + sum(lab.minutes for lab in labs)
        assert 0.8 * route.minutes <= minutes <= route.minutes * 1.1, route
        assert labs == sorted(labs, key=LABS.index)
