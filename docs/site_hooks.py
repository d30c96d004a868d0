"""Additions of the site to docs/*.md when it is built: pages that are made, links, formulas.

`mkdocs.yml` names this file. The Markdown stays as it reads on a forge; see docs/site_links.py.
"""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs import atlases, live_files, notebook_pages, reference_page, rooms_picture
from docs.site_links import ROOT, CarriedFiles, origin_of

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
DELIMITERS = {r"\lVert": "‖", r"\rVert": "‖", r"\{": "{", r"\}": "}"}
# A page of the site that is made here -> what makes its Markdown.
MADE = {
    **{
        path: lambda markdown=markdown: markdown
        for path, markdown in reference_page.pages().items()
    },
    **{
        f"notebooks/{path.stem}.md": lambda path=path: notebook_pages.render(path)
        for path in notebook_pages.NOTEBOOKS
    },
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and those of files outside docs/ that pages link to."""
    for path, render in MADE.items():
        files.append(File.generated(config, path, content=render()))
    carried = CarriedFiles(ROOT)
    for path, text in carried.pages().items():
        files.append(File.generated(config, path, content=text))
    made = notebook_pages.assets() | atlases.site_files() | live_files.site_files()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    path = page.file.src_uri
    if path in MADE:
        return markdown
    if path == "live.md":
        page.meta["hide"] = ["navigation", "toc"]  # the workbench takes the width
    links = f"{live_files.LINK}\n{atlases.LINKS}" if live_files.is_built() else atlases.LINKS
    markdown = markdown.replace(atlases.PLACE, links)
    return CarriedFiles(ROOT).relink(markdown, origin_of(path), path)


def on_page_content(content: str, **_: Any) -> str:
    """Put in the live workbench, and write formulas as MathML: no script, no other host."""
    content = content.replace(live_files.PLACE, live_files.page_html())
    return INLINE.sub(lambda found: _formula(html.unescape(found[1]), "inline"), content)


def formula_block(source: str, *_: Any, **__: Any) -> str:
    """A fenced block of the language `math`."""
    return f'<div class="formula">{_formula(source.strip(), "block")}</div>'


def _formula(source: str, display: str) -> str:
    """MathML; the converter leaves the names of delimiters that a `\\Big` stands before."""
    drawn = convert(source, display=display)
    for name, sign in DELIMITERS.items():
        drawn = drawn.replace(f">{name}</mo>", f">{sign}</mo>")
    return drawn


def graph_block(source: str, *_: Any, **__: Any) -> str:
    """A fenced block of the language `mermaid`, drawn here: its own library comes from a CDN."""
    return rooms_picture.svg(source)


def github_anchor(title: str, _separator: str) -> str:
    """The id that a forge gives to a heading, so that links lead there on both."""
    plain = html.unescape(re.sub(r"<[^>]+>", "", title)).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build again while a page is edited (`mkdocs serve`) where the changelog changes, too."""
    config.watch.append(str(Path(ROOT) / "CHANGELOG.md"))
    return config
