"""The wheel's additional files, the project's addresses and its page on a package index.

hatchling runs this, for `pip install` and for a release.

An editable install takes the source tree as it is, where the files lie in their own places, and
must get no copies of them.
"""

import re
import subprocess
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
    """The project's addresses, and README.md as it reads outside of the repository.

    Both follow the clone that the build runs in, so a release of a fork leads to the fork. A build
    that no public repository is known for names none and keeps the README as it stands.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        if repository := public_address(origin(Path(self.root))):
            text = with_full_addresses(text, repository)
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{repository}/blob/HEAD/docs/index.md",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def origin(root: Path) -> str:
    """Return what the clone's git calls origin, or "" where there is no clone, git or origin."""
    command = ["git", "--git-dir", str(root / ".git"), "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # no git on this machine
        return ""


def public_address(remote: str) -> str:
    """Return the web address of a git remote at a host with a domain, or "" for any other remote.

    `https://host/owner/name.git`, `ssh://git@host/owner/name` and `git@host:owner/name.git` give
    `https://host/owner/name`, without a password or token that stands before the host.
    """
    host = r"(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*)"
    path = r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)"
    for form in (rf"https?://(?:[^@/]*@)?{host}/{path}", rf"(?:ssh://)?[\w.-]+@{host}[:/]{path}"):
        if found := re.fullmatch(form, remote.rstrip("/").removesuffix(".git")):
            return f"https://{found['host']}/{found['path']}"
    return ""


def with_full_addresses(text: str, repository: str) -> str:
    """Return the Markdown text, each path in a link or picture an address in the repository."""
    path = r"(?![a-z]+:|#)"  # neither an address already nor a place on the page itself
    text = re.sub(rf"(!\[[^\]]*\]\(){path}", rf"\1{repository}/raw/HEAD/", text)
    text = re.sub(rf"\]\({path}", f"]({repository}/blob/HEAD/", text)
    return re.sub(rf'\b(src|srcset)="{path}', rf'\1="{repository}/raw/HEAD/', text)
