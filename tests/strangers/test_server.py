"""Strangers' addresses at the real server, encoded or not: every page stands, and is told of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.serving import answer, serving

pytestmark = pytest.mark.slow

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
