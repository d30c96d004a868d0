"""The first page has the address of the app itself; a link that gives its name leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NAME = "explore"


class FirstPage:
    """ASGI middleware that sends /explore to /, where Streamlit would tell of no such page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or say where its page is."""
        named = scope["type"] == "http" and scope["path"].rstrip("/").endswith(f"/{NAME}")
        if not named or scope["method"] not in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        here = "../" if scope["path"].endswith("/") else "./"  # whatever path a proxy has in front
        await RedirectResponse(here + (f"?{query}" if query else ""), 307)(scope, receive, send)
