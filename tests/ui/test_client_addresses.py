"""Addresses of visitors: which header is believed, and whom an address stands for."""

import pytest

from mha_viz.errors import SettingsError
from mha_viz.ui.operating import addresses
from mha_viz.ui.operating.settings import Settings, read

# The second is named by an address in it.
PROXIES = ("127.0.0.1", "10.9.8.7/8", "2001:db8:1::/48")


@pytest.fixture
def trusting(monkeypatch):
    found = Settings(public=True, trusted_proxies=PROXIES)
    monkeypatch.setattr(addresses, "settings", lambda: found)


@pytest.mark.parametrize(
    ("peer", "x_forwarded_for", "forwarded", "expected"),
    [
        ("127.0.0.1", [], [], "127.0.0.1"),
        ("8.8.8.8", ["1.1.1.1"], ["for=1.1.1.1"], "8.8.8.8"),  # no proxy of ours
        ("127.0.0.1", ["1.1.1.1"], [], "1.1.1.1"),
        ("127.0.0.1", ["6.6.6.6, 1.1.1.1"], [], "1.1.1.1"),  # the visitor sent the first one
        ("127.0.0.1", ["6.6.6.6", "1.1.1.1, 10.0.0.9"], [], "1.1.1.1"),
        ("::ffff:127.0.0.1", ["x, 1.1.1.1:443"], [], "1.1.1.1"),
        ("10.1.2.3", [], ['for=6.6.6.6, For="[2001:4860::8]:80";proto=https'], "2001:4860::8"),
        ("10.1.2.3", ["1.1.1.1"], ["for=1.1.1.1;host=a"], "1.1.1.1"),
        ("11.1.2.3", ["1.1.1.1"], [], "11.1.2.3"),  # of another network
        ("2001:db8:1::7", ["10.0.0.1, 10.0.0.2"], [], "10.0.0.2"),
    ],
)
def test_client_is_the_last_address_that_no_named_proxy_has(
    trusting, peer, x_forwarded_for, forwarded, expected
):
    assert addresses.client(peer, x_forwarded_for, forwarded) == expected


@pytest.mark.parametrize(
    ("x_forwarded_for", "forwarded"),
    [(["unknown"], []), ([], ["for=_hidden"]), (["1.1.1.1"], ["for=6.6.6.6"])],
)
def test_client_of_headers_that_name_none_or_two_is_refused(trusting, x_forwarded_for, forwarded):
    with pytest.raises(ValueError):
        addresses.client("127.0.0.1", x_forwarded_for, forwarded)


def test_client_without_named_proxies_is_the_peer():
    assert addresses.client("127.0.0.1", ["1.1.1.1"], ["for=1.1.1.1"]) == "127.0.0.1"


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1", "10.0.0.9", "fd00::1", "192.168.1.7"])
def test_counted_is_nobody_where_a_proxy_may_stand(address):
    assert addresses.counted(address) is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", "8.8.8.8"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("2001:4860:1:2:3:4:5:6", "2001:4860:1:2::/64"),
    ],
)
def test_counted_is_an_address_or_a_block(address, expected):
    assert addresses.counted(address) == expected


def test_counted_with_named_proxies_is_every_other_address(trusting):
    assert addresses.counted("192.168.1.7") == "192.168.1.7"
    assert addresses.counted("10.0.0.9") is None  # it has named nobody


def test_trusted_proxies_are_addresses_and_networks():
    found = read({"MHA_VIZ_TRUSTED_PROXIES": ", ".join(PROXIES)}).settings
    assert found.trusted_proxies == PROXIES
    for wrong in ("proxy.example", "10.0.0.0/99", "0.0.0.0/0", "::/0", "0.0.0.0/1", "2000::/3"):
        with pytest.raises(SettingsError, match="addresses or networks"):
            read({"MHA_VIZ_TRUSTED_PROXIES": wrong})
