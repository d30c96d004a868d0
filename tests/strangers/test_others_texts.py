"""Texts that others gave: named on the pages of who sits at the machine, and to nobody else."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from mha_viz.ui.state import own_address
from tests.ui.serving import OpenPage, served

NAME = "earlier.txt"
GIVE = (
    f"from mha_viz.ui.run.studies import studies; answer = studies().add_texts(b'A b.', {NAME!r})"
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    names = "localhost heads.example.org"
    folder = tmp_path_factory.mktemp("own")
    with served(folder, STREAMLIT_SERVER_ALLOWED_HOSTS=f"{names} 127.0.0.1") as (port, ask):
        ask(GIVE)
        yield port


def corpus(port: int, **headers: str) -> bytes:
    """All that the server sends of the page, to a browser that claims to be on this machine."""
    message = BackMsg()
    message.rerun_script.page_name = "many_texts"
    message.rerun_script.context_info.url = f"http://localhost:{port}/many_texts"
    with OpenPage(port, **headers) as page:
        return b"".join(told.SerializeToString() for told in page.run(message))


def test_page_of_this_machine_names_the_texts_of_earlier_visits(port: int) -> None:
    assert NAME.encode() in corpus(port)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "heads.example.org"},
        {"x_forwarded_for": "8.8.8.8"},
    ],
    ids=str,
)
def test_page_through_a_proxy_names_none_whatever_the_browser_claims(port: int, headers) -> None:
    assert NAME.encode() not in corpus(port, **headers)


@pytest.mark.parametrize(
    "header", [None, "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-IP"]
)
def test_only_here_is_false_of_a_request_with_a_header_of_a_proxy(
    header: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Host": "127.0.0.1:8501"} | ({header: "8.8.8.8"} if header else {})
    monkeypatch.setattr(own_address.st, "context", SimpleNamespace(headers=headers))
    monkeypatch.setattr(own_address.config, "get_option", lambda name: "127.0.0.1")
    assert own_address.only_here() == (header is None)
