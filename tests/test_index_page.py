"""What a package says of itself on a package index, and where that leads back to."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import hatch_build
from tests.test_package import ROOT, run

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


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a fresh clone as the package's metadata needs, with no origin yet."""
    (tmp_path / "mha_viz").mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "mha_viz/__init__.py"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    run("git", "init", "--quiet", cwd=tmp_path)
    return tmp_path


def test_the_metadata_leads_back_to_the_clone_s_origin(clone: Path) -> None:
    run("git", "remote", "add", "origin", "git@host.example:owner/name.git", cwd=clone)
    stated = json.loads(run(sys.executable, "-m", "hatchling", "metadata", cwd=clone))
    home = "https://host.example/owner/name"
    assert stated["urls"]["Repository"] == home
    for address in stated["urls"].values():
        assert address.startswith(home)
        _, _, path = address.partition("/blob/HEAD/")
        assert (ROOT / path).is_file() or address in (home, f"{home}/issues")
    page = hatch_build.with_full_addresses((ROOT / "README.md").read_text("utf-8"), home)
    assert stated["readme"] == {"content-type": "text/markdown", "text": page}


def test_a_clone_of_no_public_repository_names_none(clone: Path) -> None:
    run("git", "remote", "add", "origin", str(ROOT), cwd=clone)
    stated = json.loads(run(sys.executable, "-m", "hatchling", "metadata", cwd=clone))
    assert "urls" not in stated
    assert stated["readme"]["text"] == (ROOT / "README.md").read_text("utf-8")
