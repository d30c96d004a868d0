"""Links of the Markdown files, which lead through the repository, as links through the site.

A page of docs/ is a page of the site under the same name. What a page links to outside of docs/
(code, the README, a model card) is carried along, so that no link needs another host.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
# Code first: what stands in it is no link.
LINK = re.compile(
    r"^```.*?^```$|`[^`\n]*`|(?P<before>\]\(|(?:src|srcset)=\")(?P<target>[^)\s\"]+)", re.M | re.S
)


def origin_of(page: str) -> str:
    """The file of the repository that a page of the site is made from."""
    if page == CHANGELOG.lower():
        return CHANGELOG
    if page.startswith("source/"):
        file = page.removeprefix("source/")
        return file if (ROOT / file).is_file() else file.removesuffix(".md")
    return f"docs/{page}"


def page_of(origin: str) -> str:
    """The page of the site, or its picture, that shows a file of the repository."""
    if origin == CHANGELOG:
        return CHANGELOG.lower()
    if origin.startswith("docs/") and not origin.endswith(".py"):
        return origin.removeprefix("docs/")
    return f"source/{origin}" if origin.endswith(".md") else f"source/{origin}.md"


class CarriedFiles:
    """The files outside docs/ that its pages lead to, and those that these lead to in turn."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def pages(self) -> dict[str, str]:
        """Page of the site -> its Markdown, for every file that is carried along."""
        waiting = [CHANGELOG]
        for path in sorted(self.root.glob("docs/*.md")):
            waiting += self._targets(f"docs/{path.name}")
        found: dict[str, str] = {}
        while waiting:
            origin = waiting.pop()
            page = page_of(origin)
            if page in found or (self.root / "docs" / page).is_file():
                continue
            text = (self.root / origin).read_text("utf-8")
            is_prose = origin.endswith(".md")
            found[page] = text if is_prose else _code_page(origin, text)
            waiting += self._targets(origin) if is_prose else []
        return found

    def relink(self, markdown: str, origin: str, page: str) -> str:
        """The Markdown of that file with the links that it needs as that page."""
        if not origin.endswith(".md"):
            return markdown

        def relative(target: str) -> str:
            path, mark, anchor = target.partition("#")
            if not path or re.match(r"[a-z]+:", target):
                return target
            to = page_of(_inside(origin, path))
            return os.path.relpath(to, os.path.dirname(page) or ".") + mark + anchor

        return _replace_targets(markdown, relative)

    def _targets(self, origin: str) -> list[str]:
        """The files of the repository that a Markdown file links to, and that are pages."""
        found: list[str] = []

        def note(target: str) -> str:
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z]+:", target):
                file = _inside(origin, path)
                if not file.startswith("docs/images/"):
                    found.append(file)
            return target

        _replace_targets((self.root / origin).read_text("utf-8"), note)
        return found


def _replace_targets(markdown: str, change: Callable[[str], str]) -> str:
    def replaced(link: re.Match[str]) -> str:
        return link[0] if link["target"] is None else link["before"] + change(link["target"])

    return LINK.sub(replaced, markdown)


def _inside(origin: str, path: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(origin), path))


def _code_page(origin: str, text: str) -> str:
    language = {".py": "python", ".js": "javascript", ".toml": "toml"}.get(Path(origin).suffix, "")
    return f"# {origin}\n\n~~~~~~{language}\n{text}\n~~~~~~\n"
