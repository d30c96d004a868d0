"""Networks of proxies that are named by an address in them."""

from mha_viz.ui.operating import addresses
from mha_viz.ui.operating.settings import Settings


def test_client_trusts_a_network_that_is_named_by_one_of_its_addresses(monkeypatch) -> None:
    found = Settings(public=True, trusted_proxies=("10.9.8.7/16",))
    monkeypatch.setattr(addresses, "settings", lambda: found)
    assert addresses.client("10.9.1.1", ["192.0.2.7"], []) == "192.0.2.7"
    assert addresses.client("10.8.1.1", ["192.0.2.7"], []) == "10.8.1.1"
