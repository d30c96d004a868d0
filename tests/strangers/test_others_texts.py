"""Texts that others gave: named on the pages of who sits at the machine, and to nobody else."""

from types import SimpleNamespace

import pytest

from mha_viz.ui.state import own_address

pytestmark = pytest.mark.slow


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
