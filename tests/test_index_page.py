"""The package's page on a package index, and the links that lead back from it."""

import pytest

import hatch_build

pytestmark = pytest.mark.slow


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
