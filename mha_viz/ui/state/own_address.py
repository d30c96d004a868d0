"""The page's address: how others in the network reach it, and parameters added in place."""

import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit import config

from mha_viz.ui.operating.addresses import is_loopback
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.operating.streamlit_run import script_component

_EVERYWHERE = ("", "0.0.0.0", "::")  # what listens on all addresses
_FORWARDING = ("X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-IP")
_ELSEWHERE = ("192.0.2.1", 9)  # for documentation (RFC 5737); nothing is sent there


class Reached(NamedTuple):
    """An address of the page to hand out, and why others cannot open it ("" where they can)."""

    url: str
    problem: str


def reached() -> Reached:
    """Return the present page's address for others, without parameters."""
    url = st.context.url or f"http://127.0.0.1:{config.get_option('server.port')}/"
    # A public server has a name by which others open it; its own addresses are not told.
    if settings().public and not settings().classroom:
        return Reached(url.partition("?")[0], "")
    listens = str(config.get_option("server.address") or "")
    return seen_by_others(url, listens, in_network)


def only_here() -> bool:
    """Return whether everybody who can open the page sits at this machine.

    The page's own address is what a browser says; the name that it asked for was checked, and a
    proxy in front of the server gives itself away by a header.
    """
    headers = st.context.headers
    if settings().public or any(name in headers for name in _FORWARDING):
        return False
    host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
    return is_loopback(host) and is_loopback(str(config.get_option("server.address") or ""))


def seen_by_others(url: str, listens: str, own_address: Callable[[], str | None]) -> Reached:
    """Replace a page's address that only this machine has by the machine's own.

    `listens` is the address that the app listens on; `own` finds the machine's in its network.

    >>> seen_by_others("http://localhost:8501/learn", "0.0.0.0", lambda: "10.0.0.7").url
    'http://10.0.0.7:8501/learn'
    """
    parts = urlsplit(url)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    if not is_loopback(parts.hostname or ""):
        return Reached(url, "")
    if is_loopback(listens):
        problem = (
            f"The app listens on {listens}, which nobody but this computer can open. To let a "
            "class in, start it with `make class` (or `mha-viz app --class`); without the limits "
            "of a class, with `make run HOST=0.0.0.0`."
        )
        return Reached(url, problem)
    host = own_address() if listens in _EVERYWHERE else listens
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
    """Find this machine's address in its network; nobody is asked for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(_ELSEWHERE)  # for datagrams this only picks the way
        except OSError:
            return None
        own_address = str(way.getsockname()[0])
    return None if is_loopback(own_address) or own_address in _EVERYWHERE else own_address


def complete(page: str, params: Mapping[str, str]) -> None:
    """Add parameters to the browser's address without a new step in its history.

    Streamlit's own way to write parameters adds a step: Back would stop at the page twice.
    """
    data = {"page": page, "query": urlencode(params)}
    script_component("page_address")(key="page-address", data=data)
