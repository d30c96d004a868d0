"""Every setting of a server: what it limits, its range, and what a public server has by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _limit(about: str, public: int | float, low: int, high: int, unit: str = "") -> Any:
    """A limit that a server for one person does not have: None there.

    Args:
        about: what it limits, for the table of settings.
        public: the default of a public server.
        low: least value that makes sense.
        high: largest.
        unit: of the value, after its number.
    """
    facts = {"about": about, "public": public, "low": low, "high": high, "unit": unit}
    return field(default=None, metadata=facts)


@dataclass(frozen=True)
class Settings:
    """Limits of a server; by default those of one person on a machine of their own.

    Of a limit, None says that only the library's own holds. The defaults of a public server are
    for a machine with two processors and 2 GB.
    """

    # strangers come: no folders, and no models but the named ones
    public: bool = field(default=False, metadata={"about": "a server for strangers"})
    # ids on the Hub that a public server offers beside the shipped
    models: tuple[str, ...] = field(default=(), metadata={"about": "models beside the shipped"})
    # who shows it may read /metrics; "" is nobody
    metrics_token: str = field(default="", metadata={"about": "the password of /metrics"})
    # origins whose pages may show the app in a frame
    embedded_in: tuple[str, ...] = field(default=(), metadata={"about": "pages that may frame it"})
    max_characters: int | None = _limit("of a text", 4_000, 100, 10_000_000, "characters")
    max_tokens: int | None = _limit("of a text", 256, 16, 1_000_000, "tokens")
    max_parameters: int | None = _limit("of a model", 130_000_000, 1_000, 10**12, "parameters")
    max_generated: int | None = _limit("behind a text", 60, 1, 200, "tokens")
    max_upload_mb: int | None = _limit("of one file", 1, 1, 100, "MB")
    max_uploads: int | None = _limit("of one session", 20, 1, 100_000, "files")
    max_sessions: int | None = _limit("open pages", 60, 1, 100_000, "sessions")
    heavy_running: int | None = _limit("at a time", 1, 1, 1_000, "jobs")
    heavy_waiting: int | None = _limit("of all sessions in the queue", 20, 0, 100_000, "jobs")
    heavy_per_session: int | None = _limit("running or waiting", 1, 1, 1_000, "jobs")
    heavy_seconds: float | None = _limit("of one job", 120.0, 1, 86_400, "seconds")
    memory_mb: int | None = _limit("of the whole server", 1_700, 100, 10_000_000, "MB")
