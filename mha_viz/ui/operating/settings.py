"""What whoever runs the server allows: one frozen object, read once when the server starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Settings:
    """Limits of a server; by default those of one person on a machine of their own.

    Of a limit, None says that only the library's own holds.
    """

    public: bool = False  # strangers come: no folders, and no models but the named ones
    models: tuple[str, ...] = ()  # ids on the Hub that a public server offers beside the shipped
    max_characters: int | None = None  # of a text
    max_tokens: int | None = None  # of a text
    max_parameters: int | None = None  # of a model
    max_generated: int | None = None  # tokens behind a text
    max_upload_mb: int | None = None  # of one file
    max_sessions: int | None = None  # open pages
    heavy_running: int | None = None  # jobs at a time; None goes by the number of processors
    heavy_waiting: int | None = None  # jobs of all sessions that wait for their turn
    heavy_per_session: int | None = None  # jobs of one session, running or waiting
    heavy_seconds: float | None = None  # of one job
    memory_mb: int | None = None  # of the whole server: beyond it caches go, then requests


@cache
def settings() -> Settings:
    """Those of this server."""
    return Settings()
