"""The functions that draw what is computed, set by the package: what computes knows no plots."""

from collections.abc import Callable
from typing import Any

from mha_viz.errors import NotKeptError

record_bundle: Callable[[Any], dict[str, str]] | None = None  # by MIME type
explorer: Callable[[Any], Any] | None = None
head_plotter: Callable[[Any, int, int], Any] | None = None
query_key_plotter: Callable[..., Any] | None = None
study_paper: Callable[[], Any] | None = None  # the module that puts studies on paper
study_atlas: Callable[[], Any] | None = None  # the module that writes atlases


def installed(drawer: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a drawing function from above; NotKeptError where the package set none."""
    if drawer is None:
        raise NotKeptError("Drawing is not available here: import mha_viz first.")
    return drawer
