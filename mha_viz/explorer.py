"""The workbench in a notebook: hover and clicks, and what is chosen can be read from Python.

Needs the extra `notebook` (anywidget), which works in Jupyter, Colab and VS Code.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.extras import require
from mha_viz.notebook import record_image, record_payload
from mha_viz.web.browser import notebook_script, style
from mha_viz.web.payload import head_payload
from mha_viz.web.standalone import bench_settings, variables

try:
    import anywidget
    import traitlets
except ImportError:
    require("notebook", "Exploring a record", "A record that a cell ends with draws itself.")
    raise


class Explorer(anywidget.AnyWidget):
    """All heads of a record and a chosen one, as in the app; a cell that ends with it draws it.

    Choices are drawn by the browser at once and reach Python a moment later.

    Args:
        record: any record.
        selected: the head that is chosen at first, by its place in the record, (layer, head).

    Raises:
        ArgumentError: no such layer or head.

    >>> import mha_viz as mv
    >>> explorer = mv.load("tiny-bert").trace("The cat sat").explore()
    >>> explorer.selected, explorer.pair
    ((0, 0), (None, None))
    """

    _esm = notebook_script()
    styles = traitlets.Unicode(style("workbench")).tag(sync=True)
    themes = traitlets.Dict({"light": variables(False), "dark": variables(True)}).tag(sync=True)
    payload = traitlets.Bytes().tag(sync=True)
    exact = traitlets.Bytes(b"").tag(sync=True)  # of the chosen head
    settings = traitlets.Dict().tag(sync=True)
    sent = traitlets.Dict().tag(sync=True)

    def __init__(self, record: AttentionRecord, selected: tuple[int, int] = (0, 0)) -> None:
        record.head(*selected)  # raises for a head that does not exist
        self.record = record
        self.selected: tuple[int, int] = selected
        self.pair: tuple[int | None, int | None] = (None, None)
        packed = record_payload(record)
        settings = bench_settings(packed, selected) | {"name": uuid.uuid4().hex}
        exact = head_payload(packed, record, selected)
        super().__init__(payload=packed, settings=settings, exact=exact)
        self.observe(self._on_sent, names="sent")

    def __repr__(self) -> str:
        layer, head = self.record.layer_numbers[self.selected[0]], self.selected[1]
        return f"Explorer(layer {layer}, head {head} of {self.record!r})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget, and a picture of all heads for whatever runs no widgets."""
        data, *metadata = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        return {**record_image(self.record), **data}, *metadata

    @property
    def weights(self) -> Float[Tensor, "query key"]:
        """The chosen head's weights, (query, key)."""
        return self.record.head(*self.selected)

    def _on_sent(self, change: Mapping[str, Any]) -> None:
        """Take what the browser chose, as far as it is valid."""
        sent = change["new"]
        view = sent.get("view")
        if not isinstance(view, Mapping):
            return
        layers, heads, queries, keys = self.record.shape
        layer = _index_from_browser(view.get("layer"), layers, self.selected[0])
        head = _index_from_browser(view.get("head"), heads, self.selected[1])
        if layer is not None and head is not None:
            self.selected = layer, head
        query, key = self.pair
        self.pair = (
            _index_from_browser(view.get("query"), queries, query),
            _index_from_browser(view.get("key"), keys, key),
        )
        self.exact = head_payload(self.payload, self.record, self.selected)
        # The answer repeats the choice: the browser takes what Python sends once it was received.
        chosen = {"layer": self.selected[0], "head": self.selected[1]}
        self.settings = self.settings | {"view": chosen, "heard": str(sent.get("id", ""))[:40]}


def _index_from_browser(sent: object, size: int, before: int | None) -> int | None:
    """Return the index that the browser sent, None beyond the end; `before` where it sent none."""
    if not isinstance(sent, str) or not sent.removeprefix("-").isdecimal():
        return before
    return int(sent) if len(sent) < 10 and 0 <= int(sent) < size else None
