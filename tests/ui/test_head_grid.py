"""The settings that the head grid gets from Python."""

from typing import Any

import numpy as np
import pytest

from mha_viz.text.from_weights import record
from mha_viz.ui.widgets.components import head_grid as module
from mha_viz.web.payload import grid_payload, unpack


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record what goes to the browser."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "_grid", lambda *, data, **_: said.append(data))
    monkeypatch.setattr(module, "carry", lambda payload, *, key: None)
    monkeypatch.setattr(module.st, "session_state", {})
    return said


def test_a_payload_is_named(drawn: list[dict[str, Any]]) -> None:
    pattern = np.full((2, 3, 5, 5), 0.2, dtype=np.float32)
    payload = grid_payload(record(pattern, list("abcde")))
    module.head_grid(payload, selected=(1, 2), order=[(1, 0)], fact="entropy", key="k")
    assert drawn[0]["payload"] == unpack(payload)[0]["id"] and "error" not in drawn[0]
    assert (drawn[0]["selected"], drawn[0]["order"]) == ([1, 2], [[1, 0]])
    assert (drawn[0]["scale"], drawn[0]["fact"], drawn[0]["heard"]) == ("sqrt", "entropy", None)


@pytest.mark.parametrize("kept", [0, 3, 40])
def test_a_payload_that_is_cut_short_is_told_in_words(
    drawn: list[dict[str, Any]], kept: int
) -> None:
    pattern = np.full((2, 3, 5, 5), 0.2, dtype=np.float32)
    module.head_grid(grid_payload(record(pattern, list("abcde")))[:kept], key="k")
    assert drawn[0]["payload"] is None
    assert drawn[0]["error"].startswith("This picture cannot be drawn: ")
