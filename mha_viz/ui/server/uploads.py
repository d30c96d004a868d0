"""A limit of uploads: Streamlit keeps each file in memory, even if the page did not ask for it."""

from cachetools import LRUCache
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mha_viz.errors import LimitError
from mha_viz.ui.operating import memory_limit, streamlit_run
from mha_viz.ui.operating.refusals import refused
from mha_viz.ui.operating.settings import settings

PATH = "/_stcore/upload_file/"  # and the session, and the file
KEPT = 2  # files of a session, beside the one that comes: a page has one place for a file or two
MAX_SESSIONS = 10_000  # whose files are counted: those that have sent none for longest go first
CLOSED = "No open page sends this file: open the page anew."


class Uploads:
    """ASGI middleware that refuses files beyond those that a session may send, and keeps few.

    Streamlit keeps every file until its page is closed, also those that no widget shows any more.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._sent: LRUCache[str, int] = LRUCache(MAX_SESSIONS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why its file is refused."""
        if scope["type"] == "http" and scope["method"] == "PUT" and PATH in scope["path"]:
            session = scope["path"].partition(PATH)[2].partition("/")[0]
            if not streamlit_run.is_connected(session):  # names that strangers invent are not kept
                await PlainTextResponse(CLOSED, 400)(scope, receive, send)
                return
            try:
                self._count(session)
                if settings().public:
                    streamlit_run.drop_uploads(session, KEPT)
            except LimitError as error:
                await PlainTextResponse(str(error), 429)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _count(self, session: str) -> None:
        memory_limit.check()
        most = settings().max_uploads
        self._sent[session] = sent = self._sent.get(session, 0) + 1
        if most is not None and sent > most:
            raise refused("uploads", most=most)
