"""What whoever runs the server allows: one frozen object, read once when the server starts."""

from __future__ import annotations

from functools import cache

from mha_viz.ui.operating.limits import Settings as Settings
from mha_viz.ui.operating.reading import read


@cache
def settings() -> Settings:
    """Those of this server, from its settings file and its environment.

    Raises:
        SettingsError: they make no sense.
    """
    return read().settings
