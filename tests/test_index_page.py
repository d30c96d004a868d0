"""The package's page on a package index, and the links that lead back from it."""

import re

import pytest
import yaml

import hatch_build
import mha_viz
from tests.test_package import ROOT

pytestmark = pytest.mark.slow


def test_the_page_on_a_package_index_leads_back_to_the_repository() -> None:
    home = "https://host.example/owner/name"
    page = hatch_build.with_full_addresses((ROOT / "README.md").read_text("utf-8"), home)
    targets = re.findall(r"\]\(([^)]+)\)", page) + re.findall(r'(?:src|srcset)="([^"]+)"', page)
    assert {target for target in targets if not target.startswith(("https://", "#"))} == set()
    assert f"({home}/blob/HEAD/docs/metrics.md)" in page


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://host.example/owner/name.github.io/", "https://host.example/owner/name.github.io"),
        ("https://x-token:secret@host.example/a/b/c.git", "https://host.example/a/b/c"),
        ("git@code.host.example:owner/name.git", "https://code.host.example/owner/name"),
        ("file:///srv/git/owner/name.git", ""),
        ("https://127.0.0.1/owner/name", ""),
        ("git@host:owner/name.git", ""),
        ("https://host.example/owner/name?x=](", ""),
        ("", ""),
    ],
)
def test_a_remote_at_a_public_host_is_an_address_without_its_secrets(
    remote: str, address: str
) -> None:
    assert hatch_build.public_address(remote) == address


def test_the_citation_and_the_changelog_agree_on_version_and_release() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    dates = dict(re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", changelog, re.M))
    assert citation["version"] == mha_viz.__version__ == next(iter(dates))
    assert str(citation.get("date-released", "unreleased")) == dates[citation["version"]]
