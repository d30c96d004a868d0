"""The glossary is complete, its links lead somewhere, and its search finds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.multi_head import AttentionWeights
from mha_viz.core.record import AttentionRecord
from mha_viz.ui import views
from mha_viz.ui.learn import glossary_terms
from mha_viz.ui.learn.contents import BY_KEY
from tests.ui.compare_app import check

ROOT = Path(__file__).parents[2]
TERMS = [term for _, terms in glossary_terms.GROUPS for term in terms]
_LOCAL = {"merge", "aligned_query", "aligned_key"}  # of one function, which explains them


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.ui import memory
    from mha_viz.ui.learn import glossary

    memory.warm_up()
    glossary.draw()


def opened(**params: str) -> AppTest:
    app = AppTest.from_function(_page, default_timeout=60)
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
        assert f"explore?only={label.key}" in text


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


def test_every_name_of_the_design_is_there():
    text = " ".join(f"{term.name} {term.meaning}" for term in TERMS)
    sizes = "d_model n_layers n_heads n_kv_heads d_head d_vocab n_ctx".split()
    tensors = "W_Q W_K W_V W_O scores pattern z head_output attention_output".split()
    for name in sizes + tensors + ["layer", "head", "query", "key", "batch"]:
        assert re.search(rf"\b{name}\b", text), name
    for name in AttentionWeights.__dataclass_fields__:
        assert re.search(rf"\b{name}\b", text), name
    assert "head_output" in dir(AttentionRecord)


def test_links_lead_to_pages_that_take_them(page):
    text = listed(page)
    links = re.findall(r"\]\(([^)]*)\)", text)
    pages = {"explore", "compare", "intervene"} | {lab.address for lab in BY_KEY.values()}
    assert len(links) > 50
    for link in links:
        address, _, query = link.partition("?")
        assert address in pages, link
        params = dict(pair.split("=") for pair in query.split("&")) if query else {}
        if address in ("explore", "compare", "intervene"):
            assert views.from_params(params)[1] == [], link
            assert set(params) <= set(views.View.__dataclass_fields__)
    for key in BY_KEY:
        assert key not in {lab for *_, lab in glossary_terms.MISCONCEPTIONS} or key in BY_KEY


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
    code = "import sys, mha_viz.ui.learn.glossary; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
