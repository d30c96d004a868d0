"""The glossary is complete, its links lead somewhere, and its search finds."""

import re
from dataclasses import fields, replace
from pathlib import Path
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state import views
from mha_viz.ui.state.links import from_params, to_params
from tests.ui.compare_app import check
from tests.ui.opening import APP, opened
from tests.ui.test_state import VIEW

ROOT = Path(__file__).parents[2]
WITH_A_VIEW = {"", "compare", "why", *(one.address for one in LABS if one.uses_text)}
LINKED = set(
    "section more measure space sort least only show why test method".split()
)  # what links choose


GLOSSARY = "mha_viz.learn.frame.glossary.draw"


def listed(app: AppTest) -> str:
    return "\n".join(part.value for part in app.markdown)


@pytest.fixture(scope="module")
def page() -> AppTest:
    return opened(GLOSSARY)


def test_every_quantity_and_label_is_there(page):
    check(page)
    text = listed(page)
    for key, metric in METRICS.items():
        assert f"`{key}`" in text, key
        for part in metric.formula.split(r",\quad "):
            assert rf"$\displaystyle {part}$" in text, key
    for label in LABELS.values():
        assert f"only={label.key})" in text


def test_links_lead_to_pages_of_the_app_and_keep_the_view():
    pages = {page.url_path for page in app().session_state.session.pages.values()}
    view = replace(VIEW, model="tiny-gpt2", least=3.0)  # a view in which nothing is as it was
    found = [split(link) for link in links(listed(opened(GLOSSARY, **to_params(view))))]
    assert len(found) > 50
    for page, params in found:
        assert page in pages
        if page in WITH_A_VIEW:
            linked, problems = from_params(params)
            assert not problems and set(params) <= views.NAMES
            for choice in fields(view):
                if choice.compare and views.parameter_of(choice) not in LINKED:
                    assert getattr(linked, choice.name) == getattr(view, choice.name), (
                        page,
                        params,
                    )
        else:
            assert page.startswith("lab-") and not params


def app(**params: str) -> AppTest:
    """The whole app on its first page."""
    return opened(APP, **params)


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]*)\)", text)


def split(link: str) -> tuple[str, dict[str, str]]:
    """The page and the choices that a browser makes of a link, with the app served under /base/."""
    parts = urlsplit(urljoin("http://host/base/glossary", link))
    assert parts.path.startswith("/base/"), link
    return parts.path.removeprefix("/base/"), dict(parse_qsl(parts.query))


def test_the_search_finds_and_is_in_the_link():
    app = opened(GLOSSARY)
    app.text_input(key="glossary-search").set_value("ENTROPY normal").run()
    text = listed(app)
    assert "`normalized_entropy`" in text and "`distance`" not in text and "n_kv_heads" not in text
    assert app.query_params["search"] in ("ENTROPY normal", ["ENTROPY normal"])
    for asked in ("<script>alert(1)</script>", "$x$ **b** [a](b)", "x" * 900):
        app.text_input(key="glossary-search").set_value(asked[:60]).run()
        check(app)
        assert len(app.info) == 1
    app.text_input(key="glossary-search").set_value("").run()
    assert "`distance`" in listed(app) and "search" not in app.query_params
