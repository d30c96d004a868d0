"""Work of torch in one thread, so that it leaves the other processors to whoever clicks.

Importing it does not import torch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from mha_viz.ui.lanes.turns import turns
from mha_viz.ui.session.giving_way import long_work

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

# Products of a pass, about.
_SMALL = 10**9  # some ten milliseconds in one thread
_LONG = 5 * 10**10  # half a second with all


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices this small gain little from threads, which wait for each other on a busy machine.

    It is the calling thread's matter: others, of pages that are run meanwhile, have all processors.
    """
    import torch

    usual = _usual_threads()
    torch.set_num_threads(1)
    # That is also what threads begin with from now on, as each run of a page does in one of its
    # own. Said in another thread, the number is new for those to come and for no other.
    other = threading.Thread(target=torch.set_num_threads, args=(usual,))
    other.start()
    other.join()
    try:
        yield
    finally:
        torch.set_num_threads(usual)


@cache
def _usual_threads() -> int:
    """Torch's own number, as it was before the first of these."""
    import torch

    return torch.get_num_threads()


@contextmanager
def turn_for(model: AttentionModel, text: str) -> Iterator[None]:
    """Around a pass of a text, or what is made of one: its lane, and its share of the processors.

    The browser that waits for it draws on the same processors. Two threads that wait for each other
    there made 10 ms of a small model 200; and where several pages compute at once, each has one.

    Args:
        model: that runs it.
        text: or both texts; each of its characters is at most a token or four.
    """
    work = sum(each.numel() for each in model.network.parameters()) * len(text)
    lane = long_work() if work > _LONG else nullcontext()
    with lane, one_thread() if work < _SMALL or turns.short.running > 1 else nullcontext():
        yield
