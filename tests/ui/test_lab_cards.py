"""The first page of Learn shows what each lab looks like."""

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.learn import page as learn_page
from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.widgets import look
from tests.ui.compare_app import check

KINDS = pytest.mark.parametrize("dark", [False, True])


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
    links = {link.proto.page: link.proto.label for link in app.get("page_link")}
    numbers = [links[lab.address].strip("*").partition(".")[0] for lab in LABS]
    assert numbers == [str(1 + i) for i in range(len(LABS))]
    assert {path.name for path in learn_page.FOLDER.iterdir()} == {
        f"{lab.key}-{scheme}.png" for lab in LABS for scheme in ("light", "dark")
    }
