"""Heavy work as pages put it into its lane: functions of the library, on models by their names."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from mha_viz.ui.jobs.calls import Call, Checkpoint
from mha_viz.ui.jobs.jobs import jobs
from mha_viz.ui.jobs.ticket import OnProgress, Ticket, Waiting, Work
from mha_viz.ui.operating import memory_limit, rss, streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import one_thread, release_slot

LIBRARIES = 10**9  # bytes that a process takes before its model, and some to spare
_SMALL = 30_000_000  # parameters; matrices of smaller models gain little from several threads

RATE = 2 * 10**10  # parameters times tokens in a second, of one thread


def model_of(checkpoint: tuple[str, str, str], random: bool = False) -> Any:
    """What stands for a model among the arguments of `work`: a `Checkpoint`.

    Args:
        checkpoint: of a view.
        random: the same with random weights, as `memory.untrained_copy` makes it.
    """
    return Checkpoint(*checkpoint, memory.MAX_RECORD, random, settings().max_tokens)


def work(
    function: partial[Any],
    key: Hashable,
    seconds: float | None = None,
    progress_argument: str = "on_progress",
) -> Work:
    """A function of the library as heavy work.

    It is done in a process of its own, but for short work, models on a graphics card, and models
    that the memory has no room for twice.

    Args:
        function: with its arguments, of which `model_of` gives the models.
        key: what the result depends on: equal work of several visitors is done once.
        seconds: how long it will take, about.
        progress_argument: its argument that is called with how far it is.
    """
    given = Call(function).models
    made = {one: _model(one) for one in given}
    large = any(map(_large, made.values()))
    call = Call(function, progress_argument, jobs().threads if large else 1)
    n_bytes = sum(4 * p.numel() for one in made.values() for p in one.network.parameters())

    def here(tell: Callable[..., None]) -> Any:
        with one_thread():
            return call.with_models(made.__getitem__)(**{progress_argument: tell})

    apart = bool(settings().cluster) or (
        all(one.device.type == "cpu" for one in made.values()) and _room(n_bytes)
    )
    name = f"{function.func.__module__}.{function.func.__qualname__}"
    return Work((name, key), here, call if apart else None, seconds)


def its_threads(model: Any) -> AbstractContextManager[None]:
    """Give torch as many threads, in this one, as the work on a model has, about."""
    return nullcontext() if _large(model) else one_thread()


def _large(model: Any) -> bool:
    return sum(p.numel() for p in model.network.parameters()) > _SMALL


def work_here(function: Callable[..., Any], key: Hashable) -> Work:
    """A function that changes what a session holds, and so has to run in this process.

    Args:
        function: called with what it tells how far it is.
        key: of its own, as nobody else may have the result.
    """

    def here(tell: Callable[..., None]) -> Any:
        with one_thread():
            return function(tell)

    return Work(key, here)


def seconds(model: Any, n_tokens: int) -> float:
    """How long forward passes take, about: enough to tell what is over at once from what is not.

    Args:
        model: a loaded one.
        n_tokens: that go through it.
    """
    return n_tokens * sum(p.numel() for p in model.network.parameters()) / RATE


def expect(some: Work) -> None:
    """A page has a button for this work: a process is made ready, for a visitor who is alone here.

    A public server keeps its memory and processors for those who have pressed one.
    """
    if some.there is not None and not some.short and not settings().public:
        jobs().workers.prepare(some.there)


def ask(some: Work, for_all: bool = False) -> Ticket:
    """Put work into the lane for the visitor whose page is run, or for all of them.

    Raises:
        JobError: there are enough jobs.
        LimitError: the server has too little memory for one more.
    """
    memory_limit.check()
    if name := session(for_all):
        memory.visitor()  # so that the end of the session is heard
    return jobs().ask(some, name)


def session(for_all: bool = False) -> str:
    """Return the name of the session whose page is run; "" where nobody's is, or for all."""
    return "" if for_all else streamlit_run.session_id() or ""


def do(some: Work, on_progress: OnProgress) -> Any:
    """What the work finds. A newer click, and a page that is left, end it.

    Args:
        some: work.
        on_progress: called with news: a place in the queue, or the progress of the function. It
            returns the share that is done, where it knows.
    """
    before: object = None
    share: float | None = None

    def look(news: Waiting | tuple[Any, ...]) -> float | None:
        nonlocal before, share
        streamlit_run.raise_if_superseded()
        if news and news != before:
            share, before = on_progress(news), news
        return share

    with release_slot():  # the page computes nothing meanwhile
        return ask(some).result(look)


def _model(checkpoint: Checkpoint) -> Any:
    name, device, dtype, _, random, _ = checkpoint
    return (memory.untrained_copy if random else memory.model)(name, device, dtype)


def _room(n_bytes: int) -> bool:
    """Return whether a model has room in another process, too."""
    return rss.free() > n_bytes + LIBRARIES
