"""What the server does before its first page: settings checked, logs and memory watched."""

from __future__ import annotations

import sys

from streamlit import config

from mha_viz.errors import SettingsError
from mha_viz.ui.operating import ceiling, give_back, quiet
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.session import memory


def begin() -> None:
    """Prepare this server, or end the program with a sentence where its settings make no sense."""
    try:
        found = settings()
    except SettingsError as error:
        sys.exit(f"error: {error}")
    if found.max_upload_mb is not None:  # refused while it comes in, whatever the page says
        config.set_option("server.maxUploadSize", found.max_upload_mb)
    if found.public:
        config.set_option("logger.enableRich", False)  # it prints errors past the log
        quiet.begin()
    give_back.share_arenas()
    ceiling.keep(memory.let_go)
