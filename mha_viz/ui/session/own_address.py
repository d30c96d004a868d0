"""The address by which others in the network reach this app, as far as this machine knows it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import streamlit as st
from streamlit import config

from mha_viz.ui.operating.settings import settings

_EVERYWHERE = ("", "0.0.0.0", "::")  # what listens on all addresses
_ELSEWHERE = ("192.0.2.1", 9)  # for documentation (RFC 5737); nothing is sent there


class Reached(NamedTuple):
    """An address of the page to hand out, and why others cannot open it ("" where they can)."""

    url: str
    problem: str


def reached() -> Reached:
    """The present page as others open it, without parameters."""
    url = st.context.url or f"http://127.0.0.1:{config.get_option('server.port')}/"
    if settings().public:  # it has a name by which others open it; its own addresses are not told
        return Reached(url.partition("?")[0], "")
    listens = str(config.get_option("server.address") or "")
    return seen_by_others(url, listens, in_network)


def only_here() -> bool:
    """Whether who has opened the page sits at this machine, as everybody does who can open it."""
    host = urlsplit(st.context.url or "").hostname or ""
    if settings().public:  # a proxy before it may give its own name
        return False
    return _is_loopback(host) and _is_loopback(str(config.get_option("server.address") or ""))


def seen_by_others(url: str, listens: str, own: Callable[[], str | None]) -> Reached:
    """A page's address with the machine's own in place of one that only this machine has.

    Args:
        url: as it was opened here.
        listens: the address that the app listens on.
        own: finds the machine's address in its network, None where it has none.

    >>> seen_by_others("http://localhost:8501/learn", "0.0.0.0", lambda: "10.0.0.7").url
    'http://10.0.0.7:8501/learn'
    """
    parts = urlsplit(url)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    if not _is_loopback(parts.hostname or ""):
        return Reached(url, "")
    if _is_loopback(listens):
        problem = (
            f"The app listens on {listens}, which nobody but this computer can open. To let a "
            "class in, start it with `make run HOST=0.0.0.0` (or `mha-viz app --host 0.0.0.0`)."
        )
        return Reached(url, problem)
    host = own() if listens in _EVERYWHERE else listens
    if host is None:
        problem = (
            "This computer has no address in a network, so nobody else can open the link. Connect "
            "it to the network of the class and open this page again."
        )
        return Reached(url, problem)
    name = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return Reached(urlunsplit((parts.scheme, name + port, parts.path, "", "")), "")


def in_network() -> str | None:
    """This machine's address on the way to other networks; nobody is asked for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(_ELSEWHERE)  # for datagrams this only picks the way
        except OSError:
            return None
        found = str(way.getsockname()[0])
    return None if _is_loopback(found) or found in _EVERYWHERE else found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
