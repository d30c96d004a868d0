"""Redaction of a public server's log: errors and their places stay, typed text does not.

Messages of libraries, and above all of exceptions, carry what they were given: the text of a
visitor, the path of a file. So a record keeps its level, its logger and the place in the code, and
of an exception its kinds and the places that it passed. Our own messages are written with care and
stay, and those of torch, which tell of shapes, precisions and memory; what they quote does not.
"""

import faulthandler
import io
import logging
import os
import re
import sys
import threading
import traceback
from pathlib import Path

from mha_viz.errors import (
    ClassError,
    DTypeError,
    JobError,
    LimitError,
    OutOfMemoryError,
    SettingsError,
    ShapeError,
)

OURS = "mha_viz"
# Of these nothing typed is in the message but what stands in quotes.
_OWN = ClassError, DTypeError, JobError, LimitError, OutOfMemoryError, SettingsError, ShapeError
_QUOTED = re.compile("“.*?”|'.*?'|\".*?\"", re.DOTALL)
_LONGEST = 300  # characters of a message
_CODE = {"mha_viz", "torch"}  # packages that raise torch's errors
_log = logging.getLogger(f"{OURS}.log")


def begin() -> None:
    """Keep everything typed out of the log, stdout and stderr from now on."""
    usual = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **options: _cleaned(usual(*args, **options)))
    logging.captureWarnings(True)
    sys.excepthook = lambda *raised: _unexpected(raised[1])
    threading.excepthook = lambda raised: _unexpected(raised.exc_value)
    sys.unraisablehook = lambda raised: _unexpected(raised.exc_value)
    _native_code_is_not_heard()


def _cleaned(record: logging.LogRecord) -> logging.LogRecord:
    """Return the record without text from outside."""
    ours = record.name == OURS or record.name.startswith(f"{OURS}.")
    message = str(record.msg) if ours and not record.args else ""
    raised = record.exc_info[1] if record.exc_info else None
    source_line = f"{os.path.basename(record.pathname)}:{record.lineno}"
    lines = [message or f"(a message that may hold what visitors typed is left out, {source_line})"]
    lines += [] if raised is None else _traceback_lines(raised)
    record.msg, record.args, record.exc_info, record.stack_info = "\n".join(lines), (), None, None
    return record


def _traceback_lines(error: BaseException) -> list[str]:
    """Return the kinds of an exception and its causes, each with the places that it passed."""
    lines: list[str] = []
    visited: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in visited:
        visited.add(id(each))
        passed = traceback.extract_tb(each.__traceback__)
        message = _message(each, passed[-1].filename if passed else "")
        lines.append(f"  {type(each).__module__}.{type(each).__qualname__}{message}, raised at")
        lines += [f"    {frame.filename}:{frame.lineno} in {frame.name}" for frame in passed]
        each = each.__cause__ or each.__context__
    return lines


def _message(error: BaseException, file: str) -> str:
    """Return the message of an error of ours or of torch, without what it quotes; else ""."""
    is_of_torch = type(error) is RuntimeError and bool(_CODE & set(Path(file).parts))
    if not (is_of_torch or isinstance(error, _OWN)):
        return ""
    lines = _QUOTED.sub("…", str(error)).split()
    return f" ({' '.join(lines)[:_LONGEST]})"


def _unexpected(error: BaseException | None) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return
    _log.error("unexpected error outside of a page", exc_info=error)


def _native_code_is_not_heard() -> None:
    """Discard what native libraries write past Python, as a panic with the text in it."""
    try:
        stderr_copy = os.dup(2)
    except OSError:  # there is no stderr
        return
    sys.stderr.flush()
    stream = io.TextIOWrapper(
        os.fdopen(stderr_copy, "wb", 0), "utf-8", "replace", write_through=True
    )
    before, sys.stderr = sys.stderr, stream
    for logger in (logging.getLogger(), *logging.Logger.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            to_stderr = isinstance(handler, logging.StreamHandler)
            if to_stderr and handler.stream in (before, sys.__stderr__):
                handler.setStream(stream)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    faulthandler.enable(stream)  # it names places, and no values
