"""Who draws a record in a notebook: core must not know plots, so the package says it here."""

from collections.abc import Callable
from typing import Any

record_bundle: Callable[[Any], dict[str, str]] | None = None  # by MIME type
explorer: Callable[[Any], Any] | None = None
head_plotter: Callable[[Any, int, int], Any] | None = None
