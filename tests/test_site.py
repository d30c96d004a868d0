"""The documentation as a site: it builds without a warning, and asks nothing of another host.

`make docs` installs what builds it and runs this; without that there is nothing to test.
"""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.atlases import MODELS

ROOT = Path(__file__).parents[1]
LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("link", "href"),
}
FETCHED = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload"}

for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
    pytest.importorskip(package, reason="make docs installs what builds the site")


class Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        for name, value in values.items():
            is_fetched = tag != "link" or FETCHED & set(values.get("rel", "").split())
            if (tag, name) in LOADS and is_fetched:
                self.loaded.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site that `make docs` has just built, or else one that is built as it does."""
    if built := os.environ.get("BUILT_SITE"):
        return ROOT / built
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": _path()}
    )
    assert done.returncode == 0, done.stderr
    return folder


def _path() -> str:
    return os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_the_front_page_opens_an_atlas_of_each_shipped_model(
    site: Path, pages: dict[Path, Page]
) -> None:
    for name in MODELS:
        link = f"atlas/{name}/index.html"
        assert link in pages[site / "index.html"].links
        heads = {target for target in pages[site / link].links if target.startswith("heads/")}
        assert len(heads) == 32 and all(((site / link).parent / head).is_file() for head in heads)


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {value for page in pages.values() for value in page.loaded}
    for sheet in site.rglob("*.css"):
        loaded |= set(re.findall(r"url\(\s*[\"']?(.*?)[\"']?\s*\)", sheet.read_text("utf-8")))
    foreign = [value for value in loaded if re.match(r"(https?:)?//", value)]
    assert loaded and not foreign
