"""Who draws a record in a notebook: core must not know plots, so the package says it here.

Knows nothing; `mha_viz/__init__.py` sets these before any record can exist.
"""

from collections.abc import Callable
from typing import Any

html_renderer: Callable[[Any], str] | None = None
head_plotter: Callable[[Any, int, int], Any] | None = None
