"""Every setting of a server: what it limits, its range, and what a public server has by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _limit(about: str, public: int | float, low: int, high: int) -> Any:
    """A limit that a server for one person does not have: None there.

    Args:
        about: what it limits, for the table of settings.
        public: the default of a public server.
        low: least value that makes sense.
        high: largest.
    """
    facts = {"about": about, "public": public, "low": low, "high": high}
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
    max_characters: int | None = _limit("characters of a text", 4_000, 100, 10_000_000)
    max_tokens: int | None = _limit("tokens of a text", 256, 16, 1_000_000)
    max_parameters: int | None = _limit("parameters of a model", 130_000_000, 1_000, 10**12)
    max_generated: int | None = _limit("tokens behind a text", 60, 1, 200)
    max_upload_mb: int | None = _limit("MB of one file", 1, 1, 100)
    max_uploads: int | None = _limit("files of one open page", 20, 1, 100_000)
    max_sessions: int | None = _limit("open pages", 60, 1, 100_000)
    heavy_running: int | None = _limit("heavy jobs at a time", 1, 1, 1_000)
    heavy_waiting: int | None = _limit("heavy jobs that wait for their turn", 20, 0, 100_000)
    heavy_per_session: int | None = _limit("heavy jobs of one session", 1, 1, 1_000)
    heavy_seconds: float | None = _limit("seconds of one heavy job", 120.0, 1, 86_400)
    memory_mb: int | None = _limit("MB of the whole server", 1_700, 100, 10_000_000)
