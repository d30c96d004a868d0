"""Who draws a record in a notebook: core must not know plots, so the package says it here."""

from collections.abc import Callable
from typing import Any

from mha_viz.errors import NotKeptError

record_bundle: Callable[[Any], dict[str, str]] | None = None  # by MIME type
explorer: Callable[[Any], Any] | None = None
head_plotter: Callable[[Any, int, int], Any] | None = None


def known(drawer: Callable[..., Any] | None) -> Callable[..., Any]:
    """One of those above, or an error that says how to get it.

    Raises:
        NotKeptError: the package has not said who draws.
    """
    if drawer is None:
        raise NotKeptError("Drawing is not available here: import mha_viz first.")
    return drawer
