"""Work in parts, a thread each, where torch's own threads would wait for each other."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from mha_viz.core.cancellation import check_cancelled

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


def in_threads(work: Callable[[_Part], _Found], parts: Sequence[_Part]) -> Iterator[_Found]:
    """Yield what `work` makes of each part, in order: as many at a time as torch has threads.

    Each is done by one thread, of torch and of LAPACK too. For the eigenvalues of a matrix of some
    hundred rows their threads mostly wait for each other: twelve such matrices took 0.4 s, and 14 s
    where something else ran on the machine. It may be cancelled before each result.

    >>> list(in_threads(abs, [-2, 3, -5]))
    [2, 3, 5]
    """
    usual = torch.get_num_threads()
    # They end with the work: a thread that has used torch and stays slows all of torch's steps.
    with ThreadPoolExecutor(usual, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(work, part) for part in parts]
        try:
            for each in futures:
                check_cancelled()
                yield each.result()
        finally:
            pool.shutdown(cancel_futures=True)  # of work that is abandoned, the rest
            torch.set_num_threads(usual)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Give torch so many threads inside, in the calling thread.

    A thread that begins meanwhile begins with as many.
    """
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def part_size(n: int, most: int) -> int:
    """Return how many of n things make a part, so that each thread has as many parts.

    A part may have `most`, and has 1 at least.

    >>> usual = torch.get_num_threads()
    >>> torch.set_num_threads(2)
    >>> part_size(12, 10), part_size(12, 5), part_size(12, 0), part_size(1, 5)
    (6, 3, 1, 1)
    >>> torch.set_num_threads(usual)
    """
    n_threads = torch.get_num_threads()
    rounds = -(-n // (max(most, 1) * n_threads))
    return -(-n // (rounds * n_threads))
