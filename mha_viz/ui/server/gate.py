"""A gate for requests: only those to one of the server's names and from its own pages.

A page of another site may send requests here from the browser of somebody who has both open. It
cannot choose its Origin, and to read an answer it needs a name of its own that leads to this
machine (DNS rebinding). Streamlit looks at the Origin of a websocket only, and for a foreign one
asks a host on the internet for this machine's address, while everybody waits.
"""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from mha_viz.ui.operating.addresses import is_loopback
from mha_viz.ui.pages import redirection

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Gate:
    """ASGI middleware that refuses, in one sentence, requests that are not for this server."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why it is refused."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reason = refusal(headers.getlist("host"), headers.getlist("origin"))
        if reason and scope["type"] == "http":
            await PlainTextResponse(reason, 403)(scope, receive, send)
            return
        if reason:  # before it is accepted a websocket closes with 403; no browser shows more
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "websocket":
            # Looked at above; what Streamlit finds here it may look up on the internet.
            other_headers = [(name, value) for name, value in scope["headers"] if name != b"origin"]
            scope = {**scope, "headers": other_headers}
        await self.app(scope, receive, send)


class FormerPages:
    """ASGI middleware that redirects former names of pages, and the first page's to /."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or redirect it to its page."""
        last = scope["path"].rstrip("/").rsplit("/", 1)[-1] if scope["type"] == "http" else ""
        target = redirection(last, scope.get("query_string", b"").decode("latin-1"))
        if target is None or scope["method"] not in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        root = "../" if scope["path"].endswith("/") else "./"  # whatever path a proxy has in front
        await RedirectResponse(root + target, 307)(scope, receive, send)


def refusal(hosts: list[str], origins: list[str]) -> str:
    """Say in one sentence why a request with these headers is refused; "" where it is not."""
    if len(hosts) != 1 or len(origins) > 1:
        return "A request names one host, and at most one origin: this one does not."
    host = hosts[0]
    name = _name(host)
    if name is None or not _is_ours(name):
        return (
            f"This server does not go by the name {host[:100]!r}: open it by the address that it "
            "gave when it started, or start it with that name in STREAMLIT_SERVER_ALLOWED_HOSTS."
        )
    if origins and not _is_own_page(origins[0], host):
        return (
            f"A page of {origins[0][:100]!r} may not use this server: open the app's own address, "
            "or start it with that origin in STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS."
        )
    return ""


def _name(host: str) -> str | None:
    """Return the name in a Host header without its port; None where it is not valid."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    if not parts.hostname or parts.netloc != host or "@" in host:
        return None
    return parts.hostname.rstrip(".")


def _is_ours(name: str) -> bool:
    """Return whether a name is this server's; by Streamlit's list where there is one."""
    host_patterns: list[str] = config.get_option("server.allowedHosts")
    if host_patterns:
        return any(_matches(name, pattern.strip().lower().rstrip(".")) for pattern in host_patterns)
    address = str(config.get_option("server.address") or "0.0.0.0").lower()
    if name in LOOPBACK or name == address:
        return True
    # Listening beyond this machine: any address leads here without a name that others could
    # choose, and the machine's own name is nobody else's.
    return not is_loopback(address) and (_is_address(name) or name in _machine_names())


def _matches(name: str, pattern: str) -> bool:
    """Match a name as Streamlit documents `server.allowedHosts`."""
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return pattern in ("*", name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _machine_names() -> set[str]:
    """Return the names of this machine, also in its own network, without asking another one."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"} - {""}


def _is_own_page(origin: str, host: str) -> bool:
    """Return whether an origin is this server's own, or a trusted one."""
    if not config.get_option("server.enableCORS"):
        return True
    trusted = {item.strip() for item in config.get_option("server.corsAllowedOrigins")}
    own_origins = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
    return origin.lower() in own_origins or origin in trusted
