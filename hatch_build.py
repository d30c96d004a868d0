"""What the wheel holds beside the package, and its page on a package index; hatchling runs this.

An editable install takes the source tree as it is, where the files lie in their own places, and
must get no copies of them.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class WheelFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Puts what pyproject.toml lists under this hook into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update(self.config["files"])


class IndexPage(MetadataHookInterface):
    """README.md as it reads outside of the repository: its links and pictures lead back there.

    As it stands where pyproject.toml names no repository.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        page = with_full_addresses(text, repository) if repository else text
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def with_full_addresses(text: str, repository: str) -> str:
    """The Markdown text, each path in a link or picture an address in the repository."""
    path = r"(?![a-z]+:|#)"  # neither an address already nor a place on the page itself
    text = re.sub(rf"(!\[[^\]]*\]\(){path}", rf"\1{repository}/raw/HEAD/", text)
    text = re.sub(rf"\]\({path}", f"]({repository}/blob/HEAD/", text)
    return re.sub(rf'\b(src|srcset)="{path}', rf'\1="{repository}/raw/HEAD/', text)
