"""Functions that tests run in other processes: they end well, badly, or not at all.

torch is imported where it is used: a server that only asks for these does without.
"""

import os
import signal
import time

from mha_viz.errors import TextError


def counts(n, on_progress):
    for i in range(n):
        on_progress(i, n)
    return os.getpid()


def goes_on(on_progress):
    """Until it is stopped."""
    while True:
        on_progress(os.getpid())
        time.sleep(0.01)


def hears_nothing(on_progress):
    on_progress(os.getpid())
    signal.pause()


def aborts():
    os.abort()


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def fills_memory():
    import numpy as np

    return np.ones(2**40, dtype=np.uint8)


def fills_torchs_memory():
    import torch

    return torch.ones(2**40, dtype=torch.uint8)


def refuses():
    raise TextError("The text is empty.")


def fails():
    raise ZeroDivisionError("a mistake of ours")


def surroundings():
    import torch

    return dict(os.environ), os.nice(0), torch.get_num_threads()
