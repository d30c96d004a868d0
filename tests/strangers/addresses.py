"""Addresses that a stranger might open: every page, every name it reads, and hostile values."""

import random
import re
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

import mha_viz.learn
from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.pages import PAGES as TOOLS
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state.views import NAMES, SECTIONS, WHY
from tests.strangers.hostile_texts import PIECES, texts
from tests.ui import one_search  # noqa: F401
from tests.ui.opening import opened as opened_under

Address = Mapping[str, str | list[str]]

PAGES = (*TOOLS, "start", "glossary", *(lab.key for lab in LABS))
PARTS = {"compare": ("section", tuple(SECTIONS)), "why": ("why", tuple(WHY))}

_LEARN = Path(mha_viz.learn.__path__[0])
_ASKED = re.compile(r"(?:choices\.\w+\(|\(\s*choices,)\s*\"(\w+)\"")
CHOICES = sorted(
    {name for file in _LEARN.rglob("*.py") for name in _ASKED.findall(file.read_text())}
)
STRANGE = (
    "", " ", "a b", "embed", "EMBED_OPTIONS", "__proto__", "view", "pages", "class", "find",
    "é=&?#", "<b>", "$x$", "layer[]", "text ", "TEXT", "x" * 1000, "page", "choices-cost",
)  # fmt: skip

VALUES = (
    "", " ", "0", "1", "-1", "+1", "1_0", "٣", "007", "1.5", "1,5", "1.2.3", "1.2,3.4,", ",", ".",
    "9" * 9, "9" * 30, "-" + "9" * 30, "2147483648", "1e999", "-1e999", "1e-999", "nan", "NaN",
    "inf", "-inf", "Infinity", "0x10", "1e3", "True", "None", "null", "[]", "{}", "[1,2]", "1;2;3",
    '{"a":1}', ";;", "0.0," * 5000, "0.0,9999.9999", "1," * 300 + "1", ";" * 999, ".to_head",
    "nsubj.to_head", "all.", "../../etc/passwd", "/etc/passwd", "C:\\x", "../x", "..", "~/x",
    "file:///etc/passwd", "\\\\host\\share", "//host/share", "..\\x", "x/../../y", "%2e%2e%2fx",
    "a/b", "a//b", "entropy",
    "nobody/nothing", "tiny-bert/..", "tiny-gpt2", "same", "sample", "encoder", "%", "%00", "%ZZ",
    "%F0%9F", "&amp;", "a=b&c=d", "#", "x" * 100_000, "é" * 50_000, *PIECES,
)  # fmt: skip


def sendable(text: str) -> str:
    """A text as far as an address can carry it: no half of a character."""
    return text.encode("utf-8", "replace").decode()


values: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(VALUES),
    st.integers().map(str),
    st.floats().map(str),
    st.lists(st.integers(-2, 40), max_size=9).map(lambda n: ",".join(map(str, n))),
    st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9)), max_size=9).map(
        lambda pairs: ",".join(f"{a}.{b}" for a, b in pairs)
    ),
    texts,
).map(sendable)


@st.composite
def addresses(draw: st.DrawFn) -> tuple[str, Address]:
    """A page and an address of it: some names with hostile values, some of them repeated."""
    page = draw(st.sampled_from(PAGES))
    names = st.one_of(st.sampled_from(sorted(NAMES)), st.sampled_from((*CHOICES, *STRANGE)))
    said = draw(
        st.dictionaries(
            names, values | st.lists(values, min_size=2, max_size=3), min_size=1, max_size=20
        )
    )
    if page in PARTS and draw(st.booleans()):
        name, parts = PARTS[page]
        said[name] = draw(st.sampled_from(parts))
    return page, said


def worst(page: str) -> Address:
    """A text that runs, and every other name with a hostile value; the same for a page each day."""
    draw = random.Random(page)
    hostile = [value for value in map(sendable, VALUES) if len(value) < 500]
    said = {name: draw.choice(hostile) for name in (*sorted(NAMES), *CHOICES, *STRANGE)}
    return said | {"text": "The cat saw the dog.", "pair": ""}


def _page(name: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from importlib import import_module

    import streamlit as st

    from mha_viz.learn import page as learn
    from mha_viz.learn.frame import glossary
    from mha_viz.learn.frame.contents import BY_KEY
    from mha_viz.ui.state.session import session

    if name == "glossary":
        glossary.draw()
    elif name == "start":
        learn.start()
    elif name in BY_KEY:
        learn.page(BY_KEY[name])()
    else:
        page = st.Page(import_module(f"mha_viz.ui.{name}.page").page, default=True)
        session().pages = {name: page, "start": st.Page(learn.start, url_path="start")}
        st.navigation(list(session().pages.values())).run()


def opened(page: str, address: Address) -> AppTest:
    """The page as this address opens it."""
    app = opened_under(_page, page, **address)
    if page == "many_texts" and (begun := studies().find(app.session_state["view"])) is not None:
        begun.stop()
        begun.wait()
        if begun.study is None:  # whoever opens the page next must not find it stopped
            studies.cache_clear()
    return app


def last(address: Address) -> dict[str, str]:
    """Return the value of each name in an address: the last one counts."""
    return {name: value if isinstance(value, str) else value[-1] for name, value in address.items()}
