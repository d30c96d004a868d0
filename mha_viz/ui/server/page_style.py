"""The style and the progress bar of all pages, in the first answer: so that nothing jumps.

A style that a page's script sends comes half a second after the page has been drawn without it.
The bar stands outside of what Streamlit draws. The style shows it while the page works, by the mark
of web/components/page/ready.js, and before that mark is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from mha_viz.ui.server.headers import PAGE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NUMBERS = "".join(
    f'[class*="-{n}-layers"] {{ --layers: {n}; }} [class*="-{n}-heads"] {{ --heads: {n}; }}\n'
    for n in range(1, 49)  # layers or heads whose place is reserved before they are drawn
)
STYLE = Path(__file__).with_name("page.css").read_text("utf-8") + _NUMBERS
# Outside of all landmarks; as a live region it is reached without one.
PROGRESS_BAR = (
    '<div id="page-progress" role="progressbar" aria-label="Page is working" '
    'aria-live="polite"></div>'
)
_PAGE = PAGE.read_bytes()
# In the body: there it comes after the styles that Streamlit's scripts add to the head.
_STYLED = _PAGE.replace(
    b"</body>", f"<style>\n{STYLE}</style>\n{PROGRESS_BAR}\n</body>".encode(), 1
)
# Without these the answer is the whole page, as it is on the disk.
_LEFT_OUT = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"})


class PageStyle:
    """ASGI middleware that adds the style and the bar to Streamlit's page, to no other document."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; the answer to one for a page gets the style and the bar."""
        if not _asks_for_page(scope):
            await self.app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name not in _LEFT_OUT]
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
            if body == _PAGE:
                body = _STYLED
                MutableHeaders(scope=start)["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": headers}, receive, collect)


def _asks_for_page(scope: Scope) -> bool:
    """Return whether a browser goes to a page; an export or a script is a file with an ending."""
    if scope["type"] != "http" or scope["method"] != "GET" or "." in scope["path"].split("/")[-1]:
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")
