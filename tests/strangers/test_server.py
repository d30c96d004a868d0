"""Strangers' addresses at the real server, encoded or not: every page stands, and is told of."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.strangers.fuzzing import LONG
from tests.ui.serving import OpenPage, answer, serving

pytestmark = pytest.mark.slow

PAGES = (
    "",
    "start",
    "learn",
    "teach",
    "glossary",
    "lab-cost",
    "nobody",
    "../x",
    "\x00",
    "<script>",
)
QUERIES = (
    "a=%ZZ&text=%F0%9F&layer=%",
    "&&&===&text&text=&text=the+cat;section=x&%00=%00",
    "text=the+cat&" + "x=" * 50_000,
    "text=the+cat&" + "&".join(f"n{i}={i}" for i in range(3000)),
    "class=" + "%E2%80%AE" * 2000 + "&find=%3Cb%3E",
    "text=" + "%CC%81" * 30_000,
    f"text={quote('<script>alert(1)</script>')}&sort=%24x%24&embed=true&embed_options=x",
)
PATHS = {
    "/compare?text=" + "x" * 100_000: b"200",
    "/%ZZ?a=%": b"200",
    "/compare?%00=%00&%F0=%9F": b"200",
    "/..%2f..%2fetc/passwd": b"400",
    "/media/../../etc/passwd": b"400",
    "//example.org/": b"400",
    "/\\x": b"400",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with serving(folder) as port:
        yield port


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:30])
def test_any_path_has_an_answer(port: int, path: str) -> None:
    found = answer(port, f"127.0.0.1:{port}", path=path)
    assert found.split()[1] == PATHS[path]
    assert b"Traceback" not in found and str(Path.cwd()).encode() not in found


@pytest.mark.parametrize(
    "pages",
    [PAGES[:2], pytest.param(PAGES[2:], marks=pytest.mark.extended)],
    ids=["first pages", "further pages"],
)
def test_any_query_of_any_page(port: int, folder: Path, pages: tuple[str, ...]) -> None:
    with OpenPage(port) as page:
        for name in pages:
            queries = QUERIES if LONG else (QUERIES[PAGES.index(name) % len(QUERIES)],)
            for query in queries:
                for told in page.follow(name, query):
                    assert told.startswith("There is nothing that this model can read"), told
    assert "Traceback" not in (folder / "app.log").read_text()
