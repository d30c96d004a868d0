"""The address of a text of a study on the page Heads."""

from dataclasses import replace
from urllib.parse import urlencode

from mha_viz.ui.state import selection
from mha_viz.ui.state.views import ManyTexts, View


def heads_params(
    view: ManyTexts, text: str, head: tuple[int, int], query: int = -1, key: int = -1
) -> dict[str, str]:
    """Return the address's parameters of a text in Heads, on a head and perhaps two tokens."""
    shown = View(model=view.model, device=view.device, dtype=view.dtype, text=text)
    shown = replace(shown, layer=head[0], head=head[1], query=query, key=key)
    return selection.link_params(shown)


def heads_address(
    view: ManyTexts, text: str, head: tuple[int, int], query: int = -1, key: int = -1
) -> str:
    """Return the address of a text in Heads, relative to any page."""
    return f"./?{urlencode(heads_params(view, text, head, query, key))}"
