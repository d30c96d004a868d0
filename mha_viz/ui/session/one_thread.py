"""Work of torch in one thread, so that it leaves the other processors to whoever clicks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_THREADS = torch.get_num_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices this small gain little from threads, which wait for each other on a busy machine.

    It is the calling thread's matter: others, of pages that are run meanwhile, have all processors.
    """
    torch.set_num_threads(1)
    # That is also what threads begin with from now on, as each run of a page does in one of its
    # own. Said in another thread, the number is new for those to come and for no other.
    other = threading.Thread(target=torch.set_num_threads, args=(_THREADS,))
    other.start()
    other.join()
    try:
        yield
    finally:
        torch.set_num_threads(_THREADS)
