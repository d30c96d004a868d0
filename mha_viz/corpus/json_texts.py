"""Texts in JSON: objects or strings on lines of their own, or in one list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BufferedIOBase, TextIOWrapper
from itertools import chain

from mha_viz.corpus.reading import MAX_LINE, Passage, Skip, chosen_column, first_lines, lines
from mha_viz.errors import SourceError
from mha_viz.text.cleaning import visible

_PEEK = 512  # bytes that tell a list from lines
_CHUNK = 1 << 16  # characters that are read at once
_IN_STRING, _OUTSIDE = re.compile(r'[\\"]'), re.compile(r'["\[\]{},]')
_MARK = b"\xef\xbb\xbf"  # that Windows puts before UTF-8
_LIST = re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*(["{\]]|\Z)')


def json_texts(
    stream: BufferedIOBase, name: str, column: str | None, skip: Skip
) -> Iterator[Passage]:
    """Read the texts of a JSON file, from a list or from lines.

    Args:
        stream: the file's bytes; it must be able to go back.
        name: of the file, for places and messages.
        column: the field of each object that holds the text; None finds one.
        skip: is told the place and the reason of what cannot be read.

    Raises:
        SourceError: no such field, or a list that is followed by more or does not end.
    """
    begin = stream.read(_PEEK)
    stream.seek(0)
    if _begins_list(begin):
        yield from _texts(_elements(stream, name, skip), name, column, skip, "element")
    else:
        yield from _texts(lines(stream, name, skip), name, column, skip, "line")


def json_document(
    stream: BufferedIOBase, name: str, column: str | None, skip: Skip
) -> Iterator[Passage]:
    """Read the texts of a file called .json: a list, or JSON lines under that name.

    Args:
        stream: as for `json_texts`.
        name: likewise.
        column: likewise.
        skip: likewise.

    Raises:
        SourceError: as `json_texts`, and for any other JSON, such as one object on many lines.
    """
    begin = stream.read(_PEEK)
    is_list = _begins_list(begin)
    begin += b"" if is_list else stream.read(_CHUNK)
    stream.seek(0)
    if not (is_list or _begins_lines(begin)):
        raise SourceError(
            f"{name} holds neither a JSON list nor JSON lines: give a list of strings, a list of "
            "objects with a text each, or one such object on each line."
        )
    yield from json_texts(stream, name, column, skip)


def _begins_list(begin: bytes) -> bool:
    return begin.removeprefix(_MARK).lstrip().startswith(b"[")


def _begins_lines(begin: bytes) -> bool:
    """Whether the first line is a whole object or string, as far as the beginning shows it."""
    first, end, _ = begin.removeprefix(_MARK).lstrip().partition(b"\n")
    if not end and len(begin) > _CHUNK:
        return first.startswith((b"{", b'"'))
    try:
        return isinstance(json.loads(first), (dict, str))
    except (ValueError, RecursionError):
        return False


def is_json_list(begin: bytes) -> bool:
    """Tell a JSON list of strings or objects from plain text by its beginning.

    >>> is_json_list(b'[{"text": "One."}]'), is_json_list(b"[Applause] Thank you.")
    (True, False)
    """
    return _LIST.match(begin) is not None


def _texts(
    numbered: Iterator[tuple[int, str]], name: str, column: str | None, skip: Skip, unit: str
) -> Iterator[Passage]:
    """The texts of values in JSON, each written on a line or in an element of its own."""
    head = first_lines(numbered)
    field = _field([value for _, value in head], name, column)
    for number, written in chain(head, numbered):
        if not written.strip():
            continue
        place = f"{name}:{number}"
        try:
            value = json.loads(written)
        except (ValueError, RecursionError) as error:
            skip(place, f"The {unit} is no JSON: {_fault(error)}.")
            continue
        if field is not None and isinstance(value, dict):
            if field not in value:
                skip(place, f"There is no field “{visible(field)}”.")
                continue
            value = value[field]
        if isinstance(value, str):
            yield Passage(place, value)
        else:
            skip(place, f"Expected a text, got {type(value).__name__}.")


def _elements(stream: BufferedIOBase, name: str, skip: Skip) -> Iterator[tuple[int, str]]:
    """The elements of a JSON list as they are written, with their numbers from 1.

    The file is read in chunks, and no more than one element is held.
    """
    text = TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")  # type: ignore[type-var]
    pieces, size, number = list[str](), 0, 1
    for piece, sign in _pieces(partial(text.read, _CHUNK), name):
        size += len(piece)
        if size <= MAX_LINE:
            pieces.append(piece)
        if not sign:
            continue
        element = "".join(pieces)
        if size > MAX_LINE:
            skip(f"{name}:{number}", f"The element is longer than {MAX_LINE:,} characters.")
        elif element.strip():
            yield number, element
        elif sign == ",":
            raise SourceError(
                f"{name} is no JSON list: there is nothing before its comma {number}."
            )
        pieces, size, number = [], 0, number + 1


def _pieces(read: Callable[[], str], name: str) -> Iterator[tuple[str, str]]:
    """The elements of a list piece by piece: after the last piece of one the sign behind it."""
    quoted, depth = False, 0
    while chunk := read():
        begin = at = 0
        while found := (_IN_STRING if quoted else _OUTSIDE).search(chunk, at):
            sign, at = found[0], found.end()
            if sign == "\\":
                chunk += read() if at == len(chunk) else ""
                at += 1  # beyond the sign that it escapes
            elif sign == '"':
                quoted = not quoted
            elif sign in "[{":
                depth += 1
                begin = at if depth == 1 else begin
            else:
                if depth == 1 and sign == "}":
                    raise SourceError(f"{name} is no JSON list: a brace closes it.")
                if depth == 1:
                    yield chunk[begin : found.start()], sign
                    begin = at
                depth -= sign != ","
            if depth == 0 and not quoted:
                _check_end(chunk[at:], read, name)
                return
        yield chunk[begin:], ""
    raise SourceError(f"{name} ends within its list: it was cut, or is no JSON.")


def _check_end(rest: str, read: Callable[[], str], name: str) -> None:
    """Nothing but space follows the list."""
    while rest:
        if rest.strip():
            raise SourceError(f"{name} goes on after its list: expected one JSON list and no more.")
        rest = read()


def _fault(error: ValueError | RecursionError) -> str:
    """Why a value is no JSON."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    if isinstance(error, RecursionError):
        return "it has too many brackets within brackets"
    return "a number in it has thousands of digits"


def _field(head: list[str], name: str, column: str | None) -> str | None:
    """The field that holds the texts; None where the values are texts themselves."""
    columns: dict[str, bool] = {}  # and whether it holds text
    for written in head:
        with suppress(ValueError, RecursionError):  # said when it is that value's turn
            value = json.loads(written)
            for key, held in value.items() if isinstance(value, dict) else ():
                columns[key] = columns.get(key, False) or isinstance(held, str)
    if not columns and column is None:
        return None
    return chosen_column(name, column, [*columns], [key for key, texts in columns.items() if texts])
