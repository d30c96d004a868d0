"""Work of torch in one thread, so that it leaves the other processors to whoever clicks.

Importing it does not import torch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

_SMALL = 10**9  # products of a pass: some ten milliseconds in one thread


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


def threads_for(model: AttentionModel, text: str) -> AbstractContextManager[None]:
    """For a pass of a text: one thread where it is small, torch's own number where it is not.

    The browser that waits for it draws on the same processors. Two threads that wait for each other
    there made 10 ms of a small model 200.

    Args:
        model: that runs it.
        text: or both texts; each of its characters is at most a token or four.
    """
    parameters = sum(each.numel() for each in model.network.parameters())
    return one_thread() if parameters * len(text) < _SMALL else nullcontext()
