"""The heavy libraries, imported in a thread while the first page is drawn."""

import contextlib
import gc
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, wait

import streamlit as st

from mha_viz.ui.run.page_lock import release_slot

_WAKING = "Waking up: loading torch and transformers (once) …"
PAINT_SECONDS = 0.5  # seconds in which a browser paints what it was sent, undisturbed


class LateImports:
    """The heavy libraries, imported one after another in a thread of their own.

    What the first picture takes comes first. The rest follows once a page has been drawn, or when
    somebody needs it: until then it would only take the processor away from the drawing.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.torch: Future[None] = Future()
        self.transformers: Future[None] = Future()
        self.drawn, self.needed = threading.Event(), threading.Event()
        self.more: Callable[[], None] | None = None  # imports what few pages take, at the end
        self.done = False  # all is imported, and `then` was called
        self.then: dict[Hashable, Callable[[], object]] = {}  # loads what needs the libraries
        self.turn = threading.Lock()  # modules of two threads at once may get half of each other
        threading.Thread(target=self._load, daemon=True).start()

    def _load(self) -> None:
        try:
            with _without_collection():
                import pandas  # noqa: F401

                import mha_viz.reports.stored_run  # with torch, in some 2 s

                gc.freeze()  # what they hold stays. No later: visitors' things come and go
            self.torch.set_result(None)
            self.drawn.wait()
            self.needed.wait(PAINT_SECONDS)
            with self.turn, _without_collection():
                import mha_viz.checkpoints.loading  # noqa: F401 - with transformers, in some 4 s
            self.transformers.set_result(None)
            if self.more is not None:
                with self.turn, _without_collection():
                    self.more()
            for load in tuple(self.then.values()):
                load()
        except BaseException as error:
            self.error = error
            for libraries in (self.torch, self.transformers):
                if not libraries.done():
                    libraries.set_exception(error)
        self.done = True


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Pause garbage collection, which takes a quarter of the time of an import."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@st.cache_resource(show_spinner=False)
def late_imports() -> LateImports:
    """Return the imports of this server, which begin now if they have not yet."""
    return LateImports()


def import_rest(more: Callable[[], None]) -> None:
    """Import the rest of the libraries behind a page that has been drawn; return at once.

    `more` imports modules that know this one, after all others.
    """
    imports = late_imports()
    imports.more = more
    imports.drawn.set()


def await_torch() -> None:
    """Wait until torch and pandas are imported."""
    _await(late_imports().torch)


def await_transformers() -> None:
    """Wait until transformers is imported, too; its import begins now where it has not."""
    imports = late_imports()
    imports.needed.set()
    imports.drawn.set()
    _await(imports.transformers)


def _await(libraries: Future[None]) -> None:
    if not libraries.done():
        with release_slot(), st.spinner(_WAKING):
            wait([libraries])
    libraries.result()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import in this thread alone what may take any library but torch."""
    imports = late_imports()
    with release_slot(), st.spinner(_WAKING):
        imports.torch.result()
        with imports.turn:
            yield
