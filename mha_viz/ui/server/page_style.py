"""The style of all pages, in the first answer: before the first picture, so that nothing jumps.

A style that a page's script sends comes half a second after the page has been drawn without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STYLE = Path(__file__).with_name("page.css").read_text("utf-8")
# In the body: there it comes after the styles that Streamlit's scripts add to the head.
_BEFORE, _ADDED = b"</body>", f"<style>\n{STYLE}</style>\n".encode()
# Without these the answer is the whole page, as it is on the disk.
_LEFT_OUT = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"})


class PageStyle:
    """ASGI middleware that adds the style to Streamlit's page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one for a page gets the style with it."""
        accepted = Headers(scope=scope).get("accept", "") if scope["type"] == "http" else ""
        if "text/html" not in accepted or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        kept = [(name, value) for name, value in scope["headers"] if name not in _LEFT_OUT]
        start: Message = {}
        body = b""

        async def collect(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body", False):
                return
            headers = MutableHeaders(scope=start)
            if headers.get("content-type", "").startswith("text/html"):
                body = body.replace(_BEFORE, _ADDED + _BEFORE, 1)
                headers["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": kept}, receive, collect)
