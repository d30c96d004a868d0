"""What the switches take from Python and from a browser that may send anything."""

from typing import Any

import pytest

from mha_viz.ui.widgets.components import head_switches as module
from mha_viz.ui.widgets.components.head_switches import _switched, head_switches


def sent(off: Any, of: Any = (3, 4)) -> dict[str, Any]:
    return {"id": "x", "of": list(of), "off": off}


def test_a_set_comes_back_ordered_and_without_duplicates() -> None:
    assert _switched(sent([[2, 3], [0, 1], [2, 3]]), 3, 4) == ((0, 1), (2, 3))
    assert _switched(sent([]), 3, 4) == ()


@pytest.mark.parametrize(
    "off",
    [
        None,
        [3],
        [[0, "1"]],
        [[True, False]],
        [[3, 0]],
        [[0, 4]],
        [[0, 0]] * 13,
        [{"layer": 0, "head": 1}],
    ],
)
def test_anything_else_is_no_change(off: Any) -> None:
    assert _switched(sent(off), 3, 4) is None


def test_what_goes_to_the_browser_and_what_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, Any]] = []
    taken: list[Any] = []
    state: dict[str, Any] = {}

    def browser(*, key: str, data: dict[str, Any], on_switch_change: Any) -> None:
        drawn.append(data)
        browser.hear = on_switch_change  # type: ignore[attr-defined]

    def draw(off: list[tuple[int, int]], **more: Any) -> dict[str, Any]:
        head_switches(3, 4, off=off, key="k", take=taken.append, **more)
        return drawn[-1]

    def hear(event: Any) -> None:
        state["k"] = event
        browser.hear()  # type: ignore[attr-defined]

    browser.bring = lambda key: None  # type: ignore[attr-defined]
    monkeypatch.setattr(module.st, "session_state", state)
    monkeypatch.setattr(module, "_switches", browser)
    first = draw([(2, 0), (0, 1), (2, 0)], value_name="x" * 500)
    assert first["off"] == [[0, 1], [2, 0]] and len(first["name"]) <= 60
    assert first["heard"] is None and first["value"] is None
    hear({"switch": {"id": "first", "of": [3, 4], "off": [[1, 1]]}})
    assert taken == [((1, 1),)]
    assert draw([(1, 1)])["heard"] == "first"
    assert draw([(1, 1)])["heard"] == "first" and len(taken) == 1
    hear({"switch": {"id": "other model", "of": [4, 3], "off": [[0, 0]]}})
    assert len(taken) == 1 and draw([(1, 1)])["heard"] == "other model"
    for strange in (None, 3, {"switch": 3}, {"switch": {"id": [1]}}):
        hear(strange)
        assert draw([])["heard"] is None and len(taken) == 1
