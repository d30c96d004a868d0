"""Texts too long for an address, kept on the server under the hash that stands in the address.

They lie in this process's memory, or in a file of the folder that several processes share.
Everything is bounded: what was used longest ago goes first.
"""

import functools
import logging
import re
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state.link_values import text_hash
from mha_viz.ui.state.links import long_values
from mha_viz.ui.state.views import Shared

log = logging.getLogger("mha_viz")

MAX_BYTES = 32 * 2**20
MAX_VISITOR_BYTES = 2**20  # of one address, where strangers come
FILE = "texts.sqlite"  # in the folder that processes share
_PATIENCE = 1.0  # seconds that a page waits for another process to write
_HASH = re.compile(r"[0-9a-f]{32}\Z")
_TABLE = """
create table if not exists texts (
    hash text primary key, content blob, n_bytes integer, owner text, used integer
);
create index if not exists by_use on texts (used, n_bytes);
create index if not exists by_owner on texts (owner, used, n_bytes);
"""
# All but those that were used last and have at most so many bytes together.
_TRIM = """
delete from texts where hash in (select hash from (
    select hash, sum(n_bytes) over (order by used desc, hash) as total from texts {where}
) where total > ?)
"""


class LongTexts:
    """Texts by their hashes; safe to share between threads, and between processes by a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            path or ":memory:",
            timeout=_PATIENCE,
            isolation_level="IMMEDIATE",
            check_same_thread=False,
        )
        self._database.execute("pragma synchronous = off")  # what a crash damages is no loss
        self._database.executescript(_TABLE)

    def keep(self, text: str, owner: str = "", most: int = MAX_BYTES) -> None:
        """Keep a text that is used now; where its owner has more than `most` bytes, older ones go.

        A text that has more by itself is not kept. Raises sqlite3.Error: the file cannot be used.
        """
        content = text.encode("utf-8", "surrogatepass")
        row = (text_hash(text), content, len(content), owner, time.time_ns())
        if len(content) > min(most, MAX_BYTES):
            return
        with self._lock, self._database as database:
            if self._use(row[0]):
                return
            database.execute("insert into texts values (?, ?, ?, ?, ?)", row)
            database.execute(_TRIM.format(where="where owner = ?"), (owner, most))
            database.execute(_TRIM.format(where=""), (MAX_BYTES,))

    def find(self, name: str) -> str | None:
        """Return the text of a hash, which may be anything; None where there is none.

        Raises sqlite3.Error: the file cannot be used.
        """
        if not _HASH.match(name):
            return None
        with self._lock, self._database as database:
            self._use(name)
            row = database.execute("select content from texts where hash = ?", (name,)).fetchone()
        text = None if row is None else str(row[0], "utf-8", "surrogatepass")
        return text if text is not None and text_hash(text) == name else None

    def _use(self, name: str) -> bool:
        """Note that a text is used now; return whether it is there."""
        used = "update texts set used = ? where hash = ?"
        return self._database.execute(used, (time.time_ns(), name)).rowcount > 0


def keep(view: Shared) -> None:
    """Keep the texts of a view that its address cannot hold."""
    owner = streamlit_run.visitor_address() or streamlit_run.session_id() or ""
    most = MAX_VISITOR_BYTES if settings().public else MAX_BYTES
    for text in long_values(view):
        try:
            texts().keep(text, owner, most)
        except sqlite3.Error as error:  # the page shows it all the same; a reload will not
            log.warning("a long text could not be kept: %s", error)


def find(name: str) -> str | None:
    """Return the text of a hash in an address; None where this server does not keep it."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        return texts().find(name)
    return None


@functools.cache
def texts() -> LongTexts:
    """Return the texts of this process, or of all that share its folder where that can be used."""
    if settings().shared:
        folder = Path(settings().shared)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return LongTexts(folder / FILE)
        except (OSError, sqlite3.Error) as error:
            log.warning("long texts are kept in memory, as %s cannot be used: %s", FILE, error)
    return LongTexts()
