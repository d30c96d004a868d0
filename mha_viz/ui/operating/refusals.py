"""Refusals of what the operator does not allow: a sentence of refusals.toml, and a count."""

import threading
import tomllib
from collections import Counter
from pathlib import Path

from mha_viz.errors import LimitError

_SENTENCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_counted: Counter[str] = Counter()
_lock = threading.Lock()


def sentence(name: str, /, **values: object) -> str:
    """Return one of the sentences with its values: what is allowed, what came, what to do next."""
    return str(_SENTENCES[name].format(**values))


def refused(name: str, /, **values: object) -> LimitError:
    """Count a refusal, and make the error that says why, of a sentence that `values` fill.

    `name` is the kind of limit, by which it is counted, and which of several after a dot.
    """
    with _lock:
        _counted[name.partition(".")[0]] += 1
    return LimitError(sentence(name, **values))


def counted() -> dict[str, int]:
    """Return the number of refusals by kind since the server started."""
    with _lock:
        return dict(_counted)
