"""Messages about errors, wherever they were raised."""

import errno
import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from mha_viz.errors import MhaVizError, TextError, WriteError, is_panic
from mha_viz.ui.state.session import session

log = logging.getLogger("mha_viz")
P = ParamSpec("P")
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class NothingTyped(TextError):
    """An empty sentence, which is no fault of anybody's: pages show it as a hint."""


def sentence(error: BaseException) -> str:
    """Put an error into words that may be shown; log what was not meant to happen."""
    if _is_of_the_disk(error):
        log.error("nothing can be written", exc_info=error)
        return (
            "The server could not keep this on its disk, which is full or may not be written to. "
            "Nothing that was there is lost: try again once whoever runs the server has made room."
        )
    if isinstance(error, MhaVizError):
        return str(error)
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Shorten the text or take a smaller model."
    # For us to mend, not for the user to read: the traceback goes into the server's log.
    log.error("unexpected error", exc_info=error)
    return (
        f"Something went wrong that should not have ({type(error).__name__}). Your text is still "
        "there; the server's log says more."
    )


def _is_of_the_disk(error: BaseException) -> bool:
    """Return whether the server's disk did not take something."""
    if isinstance(error, FileNotFoundError):
        return "No usable temporary directory" in str(error)  # how the module tempfile says it
    full = isinstance(error, OSError) and error.errno in _DISK
    return full or isinstance(error, WriteError)


def is_fault(error: BaseException) -> bool:
    """Return whether something went wrong. Streamlit ends runs by raising what is no `Exception`.

    A panic in the Rust code of a tokenizer is no `Exception` either, but it is a fault.
    """
    return isinstance(error, Exception) or is_panic(error)


def guarded(callback: Callable[P, object]) -> Callable[P, None]:
    """Wrap a widget's callback: its error becomes a sentence on the page that is drawn next.

    Otherwise Streamlit would show what a callback raises as a traceback.
    """

    @wraps(callback)
    def call(*args: P.args, **options: P.kwargs) -> None:
        try:
            callback(*args, **options)
        except BaseException as error:
            if not is_fault(error):
                raise
            session().faults.append(sentence(error))

    return call
