"""The standard streams of the command: UTF-8 where they are files, and there even when closed."""

import codecs
import errno
import io
import logging
import os
import sys

# A closed stream becomes this end of the null device: reading from and writing to a stream that the
# caller closed fails (as it does in the shell's own commands), what is said on standard error is
# lost. Left closed, its number would go to the next file that is opened, and output into that file.
_NULL_STREAMS = {
    "stdin": (os.O_WRONLY, "r"),
    "stdout": (os.O_RDONLY, "w"),
    "stderr": (os.O_WRONLY, "w"),
}


def ensure_utf8() -> None:
    """Restart in Python's UTF-8 mode where the locale knows ASCII alone (LC_ALL=C).

    By itself Python does so, unless it is told otherwise (PYTHONUTF8=0). Without, letters beyond
    ASCII in texts and names of files reach us as halves of characters, which libraries refuse.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def prepare_streams() -> None:
    """Open what the caller closed (>&-), and give all streams their encoding."""
    for name, (flags, mode) in _NULL_STREAMS.items():
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where it keeps its cache is no matter
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Files are UTF-8; a terminal keeps its encoding and shows \u2192 where it has no arrow.
        if isinstance(stream, io.TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding=encoding, errors=errors)


def flush_quietly() -> None:
    """Let Python end without a second complaint about output that it could not write."""
    try:
        sys.stdout.flush()
    except OSError:
        redirect_to_null()


def redirect_to_null() -> None:
    """Send all further output to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def error_message(error: OSError) -> str:
    """Return in words what the system refused."""
    if error.errno == errno.EBADF and error.filename is None:
        return "Standard input or output is closed, and this command needs it: leave it open."
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else f"{reason}."
