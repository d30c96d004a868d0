"""The glossary is complete, its links lead somewhere, its search finds; the first page of Learn."""

import re
from dataclasses import fields, replace
from pathlib import Path
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.learn.frame.contents import LABS
from mha_viz.learn.start import numbers
from mha_viz.ui.state import views
from mha_viz.ui.state.links import from_params, to_params
from tests.ui.compare_app import check
from tests.ui.lab_app import link
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


START = "mha_viz.learn.page.start"


def test_start_opens_with_the_running_example():
    app = opened(START)
    check(app)
    assert app.text_input[0].value == numbers.SENTENCE and not app.query_params


def test_a_typed_sentence_is_carried_by_the_link_and_opens_again():
    app = opened(START, sentence="The cat sat on the")
    assert app.text_input[0].value == "The cat sat on the"
    app.text_input[0].set_value("Once upon a").run()
    check(app)
    assert app.query_params["sentence"] == "Once upon a"


def test_a_link_opens_a_step_and_one_that_is_not_there_is_named():
    app = opened(START, step="7")
    check(app)
    assert link(app)["step"] == "7" and not app.warning
    app = opened(START, step="16")
    assert "step" in app.warning[0].value and "step" not in app.query_params


@pytest.mark.parametrize("typed", ["  ", "cat " * 40])
def test_empty_or_too_long_sentence_is_refused_and_stays_in_its_box(typed):
    app = opened(START, sentence=typed)
    assert sum(map(len, (app.error, app.info, app.warning))) == 1
    assert app.text_input[0].value == typed and not app.exception
