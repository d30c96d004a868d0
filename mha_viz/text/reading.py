"""What a tokenizer raises on a text, as one of our errors: there is no other way to call one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mha_viz.errors import MhaVizError, TextError, is_panic


@contextmanager
def reading(what: str = "this text") -> Iterator[None]:
    """Around every use of a tokenizer; also a decorator of a function that uses one.

    The tokenizers library raises bare Exceptions, and where a pattern of a checkpoint goes astray
    it panics, which is no Exception at all and would end a server's thread without a word.

    Raises:
        TextError: whatever a tokenizer raises.
    """
    try:
        yield
    except (MhaVizError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise TextError(f"This model's tokenizer cannot read {what}: {reason}") from error
