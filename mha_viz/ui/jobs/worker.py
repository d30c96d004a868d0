"""A process that runs heavy work, call by call: `python -m mha_viz.ui.jobs.worker BYTES [SIGN]`.

Calls come in on the standard input and answers go out on the standard output, pickled: both ends
are of this program, and nothing that a stranger wrote is read in that way. It ends with its input,
however the server ended.
"""

import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import psutil
import torch

from mha_viz.core.cancellation import cancellation
from mha_viz.errors import MhaVizError
from mha_viz.ui.jobs.calls import Call, Cancelled, Checkpoint, SharedFlag
from mha_viz.ui.jobs.child_process import keep_output
from mha_viz.ui.jobs.turns import CooperativeYield
from mha_viz.ui.operating import malloc_trim

POLL_SECONDS = 0.005  # between two checks whether pages are still run
EVERY = 0.1  # seconds between two words of how far it is: a page draws no more often
NICE = 10  # clicks, which the server's own process answers, win the processors

_orders: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
_stopped = 0  # the number of the latest call that is to end
_models: dict[Checkpoint, Any] = {}  # one, and the same with random weights
_flag: SharedFlag | None = None  # raised while pages are run


def main() -> None:
    """Run every call until the input ends."""
    global _flag
    answers = keep_output()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lower_priority()
    _limit(int(sys.argv[1]))
    _flag = SharedFlag.attach(int(sys.argv[2])) if len(sys.argv) > 2 else None
    threading.Thread(target=_listen, daemon=True).start()
    while True:
        number, order = _orders.get()
        answer = _answer(number, order, partial(_say, answers, "progress"))
        _say(answers, *answer)
        del answer
        if _orders.empty():
            malloc_trim.now()  # ten MB and more of each call, which no other uses


def _say(answers: BinaryIO, kind: str, value: Any = None) -> None:
    answers.write(pickle.dumps((kind, value)))
    answers.flush()


def _listen() -> None:
    """Take calls, and orders to stop, which come while one is run."""
    global _stopped
    with suppress(EOFError, OSError):
        while True:
            number, order = pickle.load(sys.stdin.buffer)
            if order is None:
                _stopped = number
            else:
                _orders.put((number, order))
    os._exit(0)  # nobody is there any more: not even what is being computed is wanted


def _lower_priority() -> None:
    """Yield the processor to others; where memory runs out, the system ends this process first."""
    with suppress(AttributeError, OSError):  # Windows knows neither
        os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _limit(n_bytes: int) -> None:
    """Limit this process's memory to what it has now and so many bytes more."""
    try:
        import resource
    except ImportError:  # Windows
        return
    mapped = psutil.Process().memory_info().vms
    limits = {resource.RLIMIT_AS: mapped + n_bytes, resource.RLIMIT_CORE: 0}
    for resource_kind, most in limits.items():
        with suppress(ValueError, OSError):  # macOS has no limit of memory that holds
            resource.setrlimit(resource_kind, (most, most))


def _answer(number: int, order: bytes, say: Callable[[Any], None]) -> tuple[str, Any]:
    """Run a call that yields to pages; arguments and result as of `outcome`."""

    def wait(seconds: float) -> None:
        end = time.monotonic() + seconds
        while _flag is not None and _flag.is_set and _stopped < number and time.monotonic() < end:
            time.sleep(POLL_SECONDS)

    cooperative_yield = CooperativeYield(wait)

    def look() -> None:
        cooperative_yield()
        if _stopped >= number:
            raise Cancelled

    reported_at = 0.0

    def tell(*values: Any) -> None:
        nonlocal reported_at
        look()
        if time.monotonic() - reported_at >= EVERY:
            say(values)
            reported_at = time.monotonic()

    return outcome(order, look, tell)


def outcome(
    order: bytes, check: Callable[[], None], on_progress: Callable[..., None]
) -> tuple[str, Any]:
    """Run a pickled call; return how it ended, and its result or error.

    `check` is called between two blocks, and raises `Cancelled` to end the call.
    """
    try:
        with cancellation(check):
            call: Call = pickle.loads(order)
            torch.set_num_threads(call.threads)
            progress = {call.progress_argument: on_progress} if call.progress_argument else {}
            return "done", call.with_models(model_of)(**progress)
    except Cancelled:
        return "stopped", None
    except MhaVizError as error:
        return "error", (type(error).__name__, str(error))
    except BaseException as error:  # whatever it is, the server hears of it and says so on the page
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return "memory", None
        return "fault", traceback.format_exc()


def model_of(checkpoint: Checkpoint) -> Any:
    """Return a model by its name, checked as everywhere and kept for the next call."""
    if any(other._replace(random=checkpoint.random) != checkpoint for other in _models):
        _models.clear()  # before the next one is loaded: there may be no room for both
    if checkpoint not in _models:
        _models[checkpoint] = _loaded(checkpoint)
    return _models[checkpoint]


def _loaded(checkpoint: Checkpoint) -> Any:
    from mha_viz.checkpoints.loading import load  # late, with transformers: labs do without

    if checkpoint.random:
        from mha_viz.checkpoints.untrained_copy import untrained_copy

        model = untrained_copy(model_of(checkpoint._replace(random=False)))
    else:
        model = load(checkpoint.name, device=checkpoint.device, dtype=checkpoint.dtype)
    model.cut_texts(checkpoint.max_record, checkpoint.max_tokens)
    return model


if __name__ == "__main__":
    main()
