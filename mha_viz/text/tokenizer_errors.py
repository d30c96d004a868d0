"""Errors of tokenizers as errors of ours; every call of a tokenizer goes through here."""

from collections.abc import Iterator
from contextlib import contextmanager

from mha_viz.errors import TextError, translating


@contextmanager
def tokenizer_errors(what: str = "this text") -> Iterator[None]:
    """Translate a tokenizer's errors inside; also a decorator of a function that uses one.

    The tokenizers library raises bare Exceptions, and where a pattern of a checkpoint goes astray
    it panics, which is no Exception at all and would silently end a server's thread.
    """

    def unreadable(error: BaseException) -> TextError:
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        return TextError(f"This model's tokenizer cannot read {what}: {reason}")

    with translating(unreadable):
        yield
