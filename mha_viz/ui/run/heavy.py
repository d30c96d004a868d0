"""Heavy work of pages: functions of the library, on models by their names."""

import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from mha_viz.ui.jobs.calls import Call, Checkpoint
from mha_viz.ui.jobs.heavy_queue import jobs
from mha_viz.ui.jobs.ticket import OnProgress, Ticket, Waiting, Work
from mha_viz.ui.operating import memory_limit, streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import n_parameters, one_thread, release_slot

LIBRARIES = 10**9  # bytes that a process takes before its model, and work to spare
_SMALL = 30_000_000  # parameters; matrices of smaller models gain little from several threads

SILENCE = 60.0  # seconds without progress after which work may be stuck
RATE = 2 * 10**10  # parameters times tokens in a second, of one thread


def model_of(checkpoint: tuple[str, str, str], random: bool = False) -> Any:
    """Return the `Checkpoint` that stands for a model among the arguments of `work`.

    `random` is the same with random weights, as `memory.untrained_copy` makes it.
    """
    return Checkpoint(*checkpoint, memory.MAX_RECORD, random, settings().max_tokens)


def work(
    function: partial[Any],
    key: Hashable,
    seconds: float | None = None,
    progress_argument: str = "on_progress",
) -> Work:
    """Return a function of the library, with its arguments, as heavy work.

    A process of its own does it, except short work, models on a graphics card, and models that
    do not fit into memory twice. `model_of` gives models among the arguments. `key` is all that the
    result depends on: equal work of several visitors is done once. `seconds` estimates its
    duration, and `progress_argument` is called with the progress.
    """
    models = {checkpoint: _model(checkpoint) for checkpoint in Call(function).models}
    sizes = [n_parameters(model) for model in models.values()]
    large = any(size > _SMALL for size in sizes)
    call = Call(function, progress_argument, jobs().threads if large else 1)

    def run_here(on_progress: Callable[..., None]) -> Any:
        with one_thread():
            return call.with_models(models.__getitem__)(**{progress_argument: on_progress})

    on_cpu = all(model.device.type == "cpu" for model in models.values())
    in_process = on_cpu and _fits_twice(4 * sum(sizes))
    name = f"{function.func.__module__}.{function.func.__qualname__}"
    return Work((name, key), run_here, call if in_process else None, seconds)


def threads_for(model: Any) -> AbstractContextManager[None]:
    """Give torch in this thread about as many threads as heavy work on a model has."""
    return nullcontext() if n_parameters(model) > _SMALL else one_thread()


def work_here(function: Callable[..., Any], key: Hashable) -> Work:
    """Return heavy work that changes an object of the session, and so runs in this process.

    `function` is called with a callback for its progress; nobody else may get what is of its key.
    """

    def run_here(on_progress: Callable[..., None]) -> Any:
        with one_thread():
            return function(on_progress)

    return Work(key, run_here)


def seconds(model: Any, n_tokens: int) -> float:
    """Estimate how long passes of so many tokens take; enough to recognise short work."""
    return n_tokens * n_parameters(model) / RATE


def expect(work: Work) -> None:
    """Prepare a process for work whose button is on the page."""
    # A public server keeps its memory and processors for those who have pressed it.
    if work.call is not None and not work.short and not settings().public:
        jobs().workers.prepare(work.call)


def submit(work: Work, for_all: bool = False) -> Ticket:
    """Submit work for the visitor whose page is run, or for all of them.

    Raises JobError: there are enough jobs. LimitError: there is too little memory for one more.
    """
    memory_limit.check()
    if name := session(for_all):
        memory.visitor()  # so that the end of the session is noticed
    return jobs().ask(work, name, streamlit_run.visitor_address() if name else None)


def session(for_all: bool = False) -> str:
    """Return the name of the session whose page is run; "" where nobody's is, or for all."""
    return "" if for_all else streamlit_run.session_id() or ""


def do(
    work: Work,
    on_progress: OnProgress,
    on_silence: Callable[[float], object] = lambda seconds: None,
) -> Any:
    """Return the result of work, which a newer click or a closed page cancels.

    `on_progress` is called with a place in the queue, or the progress of the function, and returns
    the share that is done, where it knows. `on_silence` is called with the seconds in which there
    was no progress, again and again once they are `SILENCE`.
    """
    before: object = None
    share: float | None = None
    heard = reported_at = time.monotonic()

    def look(news: Waiting | tuple[Any, ...]) -> float | None:
        nonlocal before, share, heard, reported_at
        streamlit_run.raise_if_superseded()
        now = time.monotonic()
        if news and news != before:
            share, before, heard = on_progress(news), news, now
        elif isinstance(news, Waiting):
            heard = now
        elif now - max(heard, reported_at) >= SILENCE:
            on_silence(now - heard)
            reported_at = now
        return share

    with release_slot():  # the page computes nothing meanwhile
        return submit(work).result(look)


def _model(checkpoint: Checkpoint) -> Any:
    name, device, dtype, _, random, _ = checkpoint
    return (memory.untrained_copy if random else memory.model)(name, device, dtype)


def _fits_twice(n_bytes: int) -> bool:
    """Return whether a model has room in another process, too."""
    return memory_limit.free_bytes() > n_bytes + LIBRARIES
