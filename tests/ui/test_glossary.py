"""The glossary is complete, its links lead somewhere, and its search finds."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record.record import AttentionRecord
from mha_viz.learn.frame.contents import LABS
from mha_viz.learn.frame.glossary import GROUPS
from mha_viz.ui.state import views
from tests.ui.compare_app import check, compare
from tests.ui.explore_app import bench
from tests.ui.lab_app import lab
from tests.ui.test_state import VIEW

ROOT = Path(__file__).parents[2]
TERMS = [term for group in GROUPS for term in group.terms]
WITH_A_VIEW = {"", "compare", "intervene", *(one.address for one in LABS if one.uses_text)}
LINKED = set("section measure space sort least only show method".split())  # what links choose
_LOCAL = {"merge", "aligned_query", "aligned_key", "d_key_in", "d_value_in"}
_LOCAL |= {"query_token", "key_token", "top"}  # all of them are explained in place


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import glossary

    glossary.draw()


def opened(**params: str) -> AppTest:
    app = AppTest.from_function(_page, default_timeout=300)
    for name, value in params.items():
        app.query_params[name] = value
    return app.run()


def listed(app: AppTest) -> str:
    return "\n".join(part.value for part in app.markdown)


@pytest.fixture(scope="module")
def page() -> AppTest:
    return opened()


def test_every_quantity_and_label_is_there(page):
    check(page)
    text = listed(page)
    for key, metric in METRICS.items():
        assert f"`{key}`" in text, key
        for part in metric.formula.split(r",\quad "):
            assert rf"$\displaystyle {part}$" in text, key
    for label in LABELS.values():
        assert f"only={label.key})" in text


def test_every_axis_of_the_core_is_explained():
    names = {name for term in TERMS for name in re.split(r",\s*", term.name)}
    used = set()
    for path in (ROOT / "mha_viz" / "core").rglob("*.py"):
        for shape in re.findall(r'(?:Float|Bool|Int|Shaped)\[\w+, "([^"]*)"\]', path.read_text()):
            used |= {axis.lstrip("*") for axis in shape.split()}
    used = {axis for axis in used if axis.isidentifier()} - _LOCAL
    plain = {re.sub(r"(_a|_b)$", "", axis) for axis in used}
    assert len(plain) > 10 and plain <= names, plain - names


def test_shapes_are_made_of_explained_axes():
    names = {term.name for term in TERMS}
    for term in TERMS:
        assert set(term.shape.split()) <= names, term


@pytest.mark.parametrize(
    "word", ["temperature", "embedding", "residual stream", "logit", "softmax", "circuit"]
)
def test_the_words_of_the_trade_have_entries_that_lead_somewhere(word):
    (term,) = [term for term in TERMS if word in re.split(r",\s*", term.name)]
    assert term.where and len(term.meaning.split()) > 10


def test_every_name_of_the_design_is_there():
    text = " ".join(f"{term.name} {term.meaning}" for term in TERMS)
    sizes = "d_model n_layers n_heads n_kv_heads d_head d_vocab n_ctx".split()
    tensors = "W_Q W_K W_V W_O scores pattern z head_output attention_output".split()
    for name in sizes + tensors + ["layer", "head", "query", "key", "batch"]:
        assert re.search(rf"\b{name}\b", text), name
    for name in AttentionWeights.__dataclass_fields__:
        assert re.search(rf"\b{name}\b", text), name
    assert "head_output" in dir(AttentionRecord)


def test_links_lead_to_pages_of_the_app_and_keep_the_view():
    pages = {page.url_path for page in app().session_state.pages.values()}
    view = replace(VIEW, model="tiny-gpt2", least=3.0)  # a view in which nothing is as it was
    found = [split(link) for link in links(listed(opened(**views.to_params(view))))]
    assert len(found) > 50
    for page, params in found:
        assert page in pages
        if page in WITH_A_VIEW:
            linked, problems = views.from_params(params)
            assert not problems and set(params) <= views.NAMES
            for name in views.NAMES - LINKED:
                assert getattr(linked, name) == getattr(view, name), (page, params, name)
        else:
            assert page.startswith("lab-") and not params


def test_the_pages_that_labs_and_buttons_lead_to_are_there():
    pages = app().session_state.pages
    assert {"explore", "learn", "glossary", *(one.address for one in LABS)} <= pages.keys()
    assert {name: page.url_path for name, page in pages.items()} == {
        name: "" if name == "explore" else name for name in pages
    }


def test_a_text_too_long_for_a_link_is_said(page):
    assert not page.caption
    long = opened()
    long.session_state.view = replace(views.DEFAULT, text="word " * 500)
    assert "too long for a link" in long.run().caption[0].value
    assert len(max(links(listed(long)), key=len)) < 200


SEEN = {  # what a page shows of each quantity that is no choice of a menu
    "diversity": "Diversity D of heads",
    "head_rank": "Effective rank of each head",
    "coverage_ratio": "Effective rank of outputs and of patterns",
    "capacity_total": "all heads, each for itself",
    "capacity_best": "the best single head",
    "capacity_pooled": "the heads’ mean pattern",
    "capacity_bound": "at most, taken together",
    "variance_ratio": "Var(Σ heads) ≤ Σ Var(head)",
    "norm_ratio": "E‖Σ heads‖² = d_model",
    "attention_rollout": "Rollout from the input",
    "attention_flow": "flow, as shares",
    "value_weighted": "weight × length of the value",
    "cosine": "cos of W_Q",
    "product_cosine": "cos of W_QK",
    "product_overlap": "overlap of subspaces of W_QK",
    "subspace_overlap": "overlap of subspaces of W_Q",
}


def test_the_link_of_a_quantity_leads_to_it():
    page = opened(only="induction", least="7", show="pair", sort="distance")
    sortable = bench(app(sort="entropy"))  # what a page with a link that sorts offers
    twins = compare(section="twins", measure="cka").selectbox(key="ask_measure")
    assert sortable["view"]["sort"] == "entropy" and twins.value == "cka"
    texts: dict[str, str] = {}  # of each page, read once
    for key, metric in METRICS.items():
        entry = next(line for line in re.split(r"\n(?=- )", listed(page)) if f"`{key}`" in line)
        (link,) = links(entry)
        name, params = split(link)
        if key == "sink":  # no model that comes with us has one
            assert name == "" and "sort" not in params
        elif metric.of == "head":
            assert name == "" and views.from_params(params)[0].sort == key
            assert sortable["titles"][key] == metric.title
            assert not {"only", "least"} & params.keys()  # no head is left out
        elif metric.of == "pair":
            assert (name, params["section"]) == ("compare", "twins")
            assert views.from_params(params)[0].measure == key and metric.title in twins.options
        else:
            if link not in texts:
                texts[link] = check(at(name, params))
            assert re.search(rf"{re.escape(SEEN[key])}(?!\w)", texts[link]), key


def at(page: str, params: dict[str, str]) -> AppTest:
    """That page of the app, with all its tables as they are when it is opened."""
    if page == "":
        return app(**params)
    return compare(**params) if page == "compare" else lab(page.removeprefix("lab-"), **params)


def app(**params: str) -> AppTest:
    """The whole app on its first page."""
    found = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
    for name, value in params.items():
        found.query_params[name] = value
    return found.run()


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]*)\)", text)


def split(link: str) -> tuple[str, dict[str, str]]:
    """The page and the choices that a browser makes of a link, with the app served under /base/."""
    parts = urlsplit(urljoin("http://host/base/glossary", link))
    assert parts.path.startswith("/base/"), link
    return parts.path.removeprefix("/base/"), dict(parse_qsl(parts.query))


def test_the_search_finds_and_is_in_the_link():
    app = opened()
    app.text_input(key="glossary-search").set_value("ENTROPY normal").run()
    text = listed(app)
    assert "`normalized_entropy`" in text and "`distance`" not in text and "n_kv_heads" not in text
    assert app.query_params["find"] in ("ENTROPY normal", ["ENTROPY normal"])
    app.text_input(key="glossary-search").set_value("").run()
    assert "`distance`" in listed(app) and "find" not in app.query_params


@pytest.mark.parametrize(
    "asked", ["zzz", "<script>alert(1)</script>", "$x$ **b** [a](b)", "x" * 900]
)
def test_what_is_not_there_is_said(asked):
    app = opened(find=asked)
    check(app)
    assert app.info[0].value.startswith("Nothing here is called that")


def test_the_page_is_there_before_torch():
    code = "import sys, mha_viz.learn.frame.glossary; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
