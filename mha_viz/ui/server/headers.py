"""Headers that make the browser forbid other hosts, other scripts and foreign frames.

Streamlit has no settings for these headers.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mha_viz.ui.operating.settings import settings

PAGE = Path(streamlit.__file__).parent / "static" / "index.html"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# What pages of this app never ask for.
PERMISSIONS = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")


class SafeHeaders:
    """ASGI middleware that adds these headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._added = headers(settings().embedded_in)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add to its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._added)
            await send(message)

        await self.app(scope, receive, add)


def headers(embedded_in: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the headers of every answer.

    Args:
        embedded_in: origins whose pages may show the app in a frame; by default no other page may.
    """
    framed = {} if embedded_in else {"X-Frame-Options": "SAMEORIGIN"}
    return framed | {
        "Content-Security-Policy": policy(embedded_in),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": ", ".join(f"{name}=()" for name in PERMISSIONS),
        "Referrer-Policy": "same-origin",  # a text that somebody typed is in the page's address
        "X-Content-Type-Options": "nosniff",
    }


def policy(embedded_in: tuple[str, ...] = ()) -> str:
    """Return the content security policy (W3C, CSP Level 3).

    Scripts are the server's own files, those of our components, which Streamlit hands to the
    browser as blobs, and the one that stands in Streamlit's page. Styles are written by scripts.
    Nothing is fetched from, or sent to, another host.
    """
    allowed = {
        "default-src": "'self'",
        "script-src": f"'self' blob: {' '.join(_inline())}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self' data: blob:",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": " ".join(("'self'", *embedded_in)),
    }
    return "; ".join(f"{name} {values}" for name, values in allowed.items())


@cache
def _inline() -> tuple[str, ...]:
    """Return hashes of the scripts in Streamlit's page, by which the policy allows them."""
    scripts = _INLINE.findall(PAGE.read_text(encoding="utf-8"))
    sums = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return tuple(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in sums)
