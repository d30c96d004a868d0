"""Limits of what browsers send: kinds of messages, how many a second, and how much is in one.

All of it is looked at before anything is parsed: a message of 2 MB may hold 600,000 names.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg

# What a page of ours sends. Streamlit also takes messages that empty all caches, read the
# repository or ask for chunks of tables that no page has.
_KINDS = (
    "rerun_script stop_script app_heartbeat file_urls_request backend_operation_request".split()
)
KINDS = frozenset(BackMsg.DESCRIPTOR.fields_by_name[kind].number for kind in _KINDS)
# Values of widgets that no page has, and requests for what no page offers.
FOREIGN = frozenset(
    "arrow_value chat_input_value install_skills dismiss_skills_nudge dataframe_chunk".split()
)
MAX_ELEMENTS = 4_000  # of one message; a page has some 60 widgets, each of two to five
_LENGTH, _MESSAGE, _DOUBLE = 2, 11, 1  # numbers of protobuf: a wire type, and two types
_FIXED = {1: 8, 5: 4}  # wire type -> bytes


PAGE = 10.0, 60.0  # messages a second of one page, and as many as it may send at once
ADDRESS = 60.0, 300.0  # the same of all pages of one address, as of a class behind one


class ForeignMessageError(ValueError):
    """A message that no page of this app sends."""


def is_expected(data: bytes) -> bool:
    """Return whether a message is of a kind that pages of this app send.

    Raises ForeignMessageError: it is no message, or holds more than a page does, or other values.
    """
    _count(data, 0, len(data), BackMsg.DESCRIPTOR, MAX_ELEMENTS)
    kinds = {number for number, *_ in _fields(data, 0, len(data)) if number in _ONE_OF}
    return kinds <= KINDS


_ONE_OF = frozenset(field.number for field in BackMsg.DESCRIPTOR.oneofs_by_name["type"].fields)


def _count(data: bytes, begin: int, end: int, descriptor: Any, remaining: int) -> int:
    """Return how many more elements a message may hold, after those from `begin` to `end`."""
    for number, wire_type, start, stop in _fields(data, begin, end):
        field = descriptor.fields_by_number.get(number)
        remaining -= 1
        if field is not None and wire_type == _LENGTH:
            if field.name in FOREIGN:
                raise ForeignMessageError(field.name)
            if field.type == _MESSAGE:
                remaining = _count(data, start, stop, field.message_type, remaining)
            elif field.type == _DOUBLE:
                remaining -= (stop - start) // 8
            elif field.cpp_type != field.CPPTYPE_STRING:
                remaining -= stop - start  # packed whole numbers: at most one a byte
        if remaining < 0:
            raise ForeignMessageError(f"more than {MAX_ELEMENTS} elements")
    return remaining


def _fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number, the wire type, the begin and the end of each field of a message.

    Source: Protocol Buffers, "Encoding".
    """
    at = begin
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        start = at
        if wire_type == 0:
            _, at = _varint(data, at, end)
        elif wire_type == _LENGTH:
            length, start = _varint(data, at, end)
            at = start + length
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise ForeignMessageError(f"wire type {wire_type}")
        if at > end:
            raise ForeignMessageError("a field beyond its end")
        yield number, wire_type, start, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a whole number of a message, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ForeignMessageError("a number without end")


class TokenBucket:
    """A supply that grows by `rate` a second up to `most`; each message takes one of it."""

    def __init__(
        self, rate: float, most: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._most, self._clock = rate, most, clock
        self._supply, self._since = most, clock()

    def take(self) -> float:
        """Take one, and return the seconds until it is there; 0 where it is there now."""
        now = self._clock()
        self._supply = min(self._most, self._supply + (now - self._since) * self._rate) - 1
        self._since = now
        return max(0.0, -self._supply / self._rate)
