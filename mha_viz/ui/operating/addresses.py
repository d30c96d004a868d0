"""Addresses of visitors, by which the pages of one of them are counted.

A header that names the visitor is anybody's to send: it is believed only from the proxies that the
operator has named.
"""

from collections.abc import Sequence
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from mha_viz.ui.operating.settings import settings

_BLOCK = 64  # bits of an IPv6 address that a provider gives to one customer


def client(peer: str, x_forwarded_for: Sequence[str], forwarded: Sequence[str]) -> str:
    """Return the address that a request came from: `peer`, or as its headers say (RFC 7239).

    Raises ValueError: the headers of a trusted proxy name no address, or two different ones.
    """
    if not _is_trusted(peer):
        return peer
    named = [_bare(entry) for entry in ",".join(x_forwarded_for).split(",") if entry.strip()]
    parts = ",".join(forwarded).replace(";", ",").split(",")
    pairs = [part.strip().partition("=") for part in parts]
    standard = [_bare(value) for name, _, value in pairs if name.lower() == "for"]
    addresses = {_nearest(chain) for chain in (named, standard) if chain}
    if len(addresses) > 1:
        raise ValueError("two headers name different addresses")
    return addresses.pop() if addresses else peer


def counted(address: str) -> str | None:
    """Return whom an address stands for; None for one that many may share.

    As long as no proxy is named, an address of this machine or of a private network may be that of
    a proxy, and so of all visitors.
    """
    try:
        parsed = _parsed(address)
    except ValueError:  # of a Unix socket
        return None
    if _is_trusted(address) or (not settings().trusted_proxies and not parsed.is_global):
        return None
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _BLOCK), strict=False))
    return str(parsed)


def is_loopback(host: str) -> bool:
    """Return whether a host, by address or name, is this machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _nearest(chain: list[str]) -> str:
    """Return the last address that no trusted proxy has; each proxy adds its client's address."""
    strangers = [address for address in chain if not _is_trusted(address)]
    return str(_parsed((strangers or chain)[-1]))


def _bare(entry: str) -> str:
    """Return the address of an entry without quotes, brackets and its port."""
    entry = entry.strip().strip('"')
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def _is_trusted(address: str) -> bool:
    try:
        parsed = _parsed(address)
    except ValueError:
        return False
    return any(parsed in network for network in _networks(settings().trusted_proxies))


def _parsed(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address.partition("%")[0])
    return getattr(parsed, "ipv4_mapped", None) or parsed


@cache
def _networks(named: tuple[str, ...]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(name, strict=False) for name in named]
