"""Refusals of what the operator does not allow: a sentence, and a count."""

import threading
from collections import Counter

from mha_viz.errors import LimitError

ELSEWHERE = "on a computer of your own mha_viz has no such limit"
_counted: Counter[str] = Counter()
_lock = threading.Lock()


def refused(kind: str, sentence: str) -> LimitError:
    """Count a refusal, and make the error that says why.

    Args:
        kind: of limit, a word or two for the figures; never what somebody has typed.
        sentence: what is allowed, what came, what to do next.
    """
    with _lock:
        _counted[kind] += 1
    return LimitError(sentence)


def counted() -> dict[str, int]:
    """Return the number of refusals by kind since the server started."""
    with _lock:
        return dict(_counted)
