"""The exception tree. Every error the library raises on purpose is a `MhaVizError`.

A message says what was expected, what came, and what to do next.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Control characters but for tabs and ends of lines, and those that turn the direction of a text.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escaped(message: str) -> str:
    """Escape what a message quotes and nobody would see, or would see in another order.

    >>> escaped("no model “\u202egpt.exe”")
    'no model “⟨U+202E⟩gpt.exe”'
    """
    return _UNSEEN.sub(lambda matched: f"⟨U+{ord(matched[0]):04X}⟩", message)


class MhaVizError(Exception):
    """Base of all errors raised on purpose; its text may be shown to a user as it is.

    >>> import mha_viz as mv
    >>> try:
    ...     mv.load("tiny-bert").trace("")
    ... except mv.MhaVizError as error:
    ...     print(type(error).__name__)
    TextError
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(
            *(escaped(argument) if isinstance(argument, str) else argument for argument in args),
            **options,
        )


class ShapeError(MhaVizError, ValueError):
    """Tensors whose shapes do not fit each other, or head counts that do not divide."""


class DTypeError(MhaVizError, TypeError):
    """A tensor of the wrong kind of number (integers where floats belong, mixed precisions)."""


class ArgumentError(MhaVizError, ValueError):
    """A value outside what the argument allows (a layer that does not exist, an unknown name)."""


class SettingsError(MhaVizError, ValueError):
    """Settings of the server that make no sense; it does not start."""


class LimitError(MhaVizError):
    """A request beyond what the server allows, or than it has room for."""


class ClassError(MhaVizError):
    """A class of pupils whose file cannot be read or written just now."""


class TextError(MhaVizError, ValueError):
    """Text that cannot be used: empty, too long, or not valid Unicode."""


class SourceError(MhaVizError, ValueError):
    """A corpus that cannot be read: no such file or column, a damaged file, nothing in it."""


class RecordError(MhaVizError, ValueError):
    """A record that contradicts itself, or a record file that cannot be read."""


class WriteError(MhaVizError, OSError):
    """A file that could not be written; what was there before is unchanged."""


class NotKeptError(MhaVizError, AttributeError):
    """A quantity that a record did not keep (say z of a fallback family)."""


class LoadError(MhaVizError):
    """A model that could not be loaded."""


class ModelNotFoundError(LoadError):
    """No such shipped model, folder or cached Hub id, and the network does not help."""


class UnsafeCheckpointError(LoadError):
    """A checkpoint that would need pickle or foreign code, or that asks for absurd sizes."""


class BrokenCheckpointError(LoadError):
    """A checkpoint that is damaged: unreadable config or weights, NaN weights, no tokenizer."""


class AttentionUnavailableError(MhaVizError):
    """A model family that gives no attention weights, by our function or its own."""


class OutOfMemoryError(MhaVizError, MemoryError):
    """A model or a forward pass that takes more memory than there is."""


class StudyError(MhaVizError, ValueError):
    """A study of a corpus that cannot be started, continued or read."""


class MissingPackageError(MhaVizError, ImportError):
    """A library that comes with an extra of mha_viz and is not installed here."""


class JobError(MhaVizError):
    """Heavy work that a server has no room for, that took too long, or whose process ended."""


def is_panic(error: BaseException) -> bool:
    """Return whether this is a fault inside of a Rust library: pyo3 raises no `Exception`.

    >>> is_panic(ValueError()), is_panic(KeyboardInterrupt())
    (False, False)
    """
    return type(error).__module__ == "pyo3_runtime"


@contextmanager
def translating(translate: Callable[[BaseException], MhaVizError]) -> Iterator[None]:
    """Turn what another library raises inside, a panic included, into an error of ours.

    Our own errors, a lack of memory, and what ends the program (Ctrl-C) pass as they are.

    >>> with translating(lambda error: TextError(f"not a number: {error}")):
    ...     int("seven")
    Traceback (most recent call last):
        ...
    mha_viz.errors.TextError: not a number: invalid literal for int() with base 10: 'seven'
    """
    try:
        yield
    except (MhaVizError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise translate(error) from error
