"""Texts in JSON: objects or strings on lines of their own, or in one list."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain

from mha_viz.corpus.sources.reading import MAX_LINE, OpenFile, Passage, first_lines
from mha_viz.errors import SourceError
from mha_viz.text.cleaning import visible

_PEEK = 512  # bytes that tell a list from lines
_CHUNK = 1 << 16  # characters that are read at once
_IN_STRING, _OUTSIDE = re.compile(r'[\\"]'), re.compile(r'["\[\]{},]')
_MARK = b"\xef\xbb\xbf"  # that Windows puts before UTF-8
_LIST = re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*(["{\]]|\Z)')


def json_texts(file: OpenFile, *, is_json: bool = False) -> Iterator[Passage]:
    """Read the texts of a JSON file, from a list or from lines.

    `is_json`: its name is .json, so that what is neither is no file of single faulty lines.
    """
    begin = file.stream.read(_PEEK)
    is_list = begin.removeprefix(_MARK).lstrip().startswith(b"[")
    begin += file.stream.read(_CHUNK) if is_json and not is_list else b""
    file.stream.seek(0)
    if is_json and not (is_list or _begins_lines(begin)):
        raise SourceError(
            f"{file.name} holds neither a JSON list nor JSON lines: give a list of strings, a list "
            "of objects with a text each, or one such object on each line."
        )
    if is_list:
        yield from _texts(_elements(file), file, "element")
    else:
        yield from _texts(file.lines(), file, "line")


def _begins_lines(begin: bytes) -> bool:
    """Tell whether the first line is a whole object or string, as far as the beginning shows it."""
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


def _texts(numbered: Iterator[tuple[int, str]], file: OpenFile, unit: str) -> Iterator[Passage]:
    """Yield the texts of values in JSON, each written on a line or in an element of its own."""
    head = first_lines(numbered)
    field = _field([value for _, value in head], file)
    for number, written in chain(head, numbered):
        if not written.strip():
            continue
        location = f"{file.name}:{number}"
        try:
            value = json.loads(written)
        except (ValueError, RecursionError) as error:
            file.skip(location, f"The {unit} is no JSON: {_fault(error)}.")
            continue
        group = None
        if field is not None and isinstance(value, dict):
            group = value.get(file.group)
            if field not in value:
                file.skip(location, f"There is no field “{visible(field)}”.")
                continue
            value = value[field]
        if isinstance(value, str):
            yield Passage(location, value, group=group)
        else:
            file.skip(location, f"Expected a text, got {type(value).__name__}.")


def _elements(file: OpenFile) -> Iterator[tuple[int, str]]:
    """Yield the elements of a JSON list as they are written, with their numbers from 1.

    The file is read in chunks, and no more than one element is held.
    """
    text = file.text()
    pieces, size, number = list[str](), 0, 1
    for piece, sign in _pieces(partial(text.read, _CHUNK), file.name):
        size += len(piece)
        if size <= MAX_LINE:
            pieces.append(piece)
        if not sign:
            continue
        element = "".join(pieces)
        if size > MAX_LINE:
            file.skip(
                f"{file.name}:{number}", f"The element is longer than {MAX_LINE:,} characters."
            )
        elif element.strip():
            yield number, element
        elif sign == ",":
            raise SourceError(
                f"{file.name} is no JSON list: there is nothing before its comma {number}."
            )
        pieces, size, number = [], 0, number + 1


def _pieces(read: Callable[[], str], name: str) -> Iterator[tuple[str, str]]:
    """Yield a list's elements piece by piece: after the last piece of one the sign behind it."""
    quoted, depth = False, 0
    while chunk := read():
        begin = at = 0
        while match := (_IN_STRING if quoted else _OUTSIDE).search(chunk, at):
            sign, at = match[0], match.end()
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
                    yield chunk[begin : match.start()], sign
                    begin = at
                depth -= sign != ","
            if depth == 0 and not quoted:
                _check_end(chunk[at:], read, name)
                return
        yield chunk[begin:], ""
    raise SourceError(f"{name} ends within its list: it was cut, or is no JSON.")


def _check_end(tail: str, read: Callable[[], str], name: str) -> None:
    """Check that nothing but space follows the list."""
    while tail:
        if tail.strip():
            raise SourceError(f"{name} goes on after its list: expected one JSON list and no more.")
        tail = read()


def _fault(error: ValueError | RecursionError) -> str:
    """Say why a value is no JSON."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    if isinstance(error, RecursionError):
        return "it has too many brackets within brackets"
    return "a number in it has thousands of digits"


def _field(head: list[str], file: OpenFile) -> str | None:
    """Return the field that holds the texts; None where the values are texts themselves."""
    columns: dict[str, bool] = {}  # and whether it holds text
    for written in head:
        with suppress(ValueError, RecursionError):  # said when it is that value's turn
            value = json.loads(written)
            for key, content in value.items() if isinstance(value, dict) else ():
                columns[key] = columns.get(key, False) or isinstance(content, str)
    if not columns and file.column is None and file.group is None:
        return None
    return file.columns([*columns], [key for key, texts in columns.items() if texts])[0]
