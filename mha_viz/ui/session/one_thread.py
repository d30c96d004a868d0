"""Work of torch in one thread, so that it leaves the other processors to whoever clicks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_THREADS = torch.get_num_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices this small gain little from threads, which wait for each other on a busy machine.

    Always back to the same number: another session may be in here as well.
    """
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_THREADS)
