"""What a browser sends: anyone can send anything, so it is looked at before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def place_sent(sent: Any, sizes: Sequence[int]) -> tuple[int, int] | None:
    """A row and a column that the browser names, or None where there is no such place.

    Args:
        sent: what came; a list of two whole numbers if it is honest.
        sizes: how many rows and columns there are.

    >>> place_sent([1, 2], (2, 3))
    (1, 2)
    >>> [place_sent(sent, (2, 3)) for sent in ([2, 0], [0, -1], [True, 0], [0], "01", None)]
    [None, None, None, None, None, None]
    """
    if not isinstance(sent, list) or len(sent) != 2 or {type(i) for i in sent} != {int}:
        return None
    row, column = sent
    return (row, column) if 0 <= row < sizes[0] and 0 <= column < sizes[1] else None


def step_sent(event: Any, count: int) -> tuple[int, bool] | None:
    """Which value is next and whether others follow, or None: anyone can send anything.

    >>> step_sent({"step": {"to": 2, "playing": True}}, 3)
    (2, True)
    >>> bad = ({"to": 3, "playing": True}, {"to": True, "playing": True}, {"to": 1}, [1], None)
    >>> [step_sent({"step": sent}, 3) for sent in bad]
    [None, None, None, None, None]
    """
    sent = event.get("step") if isinstance(event, Mapping) else None
    if not isinstance(sent, Mapping):
        return None
    to, playing = sent.get("to"), sent.get("playing")
    if type(to) is not int or type(playing) is not bool or not 0 <= to < count:
        return None
    return to, playing
