"""The files of a tokenizer, counted before they are parsed: lines, values, pieces."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from mha_viz.checkpoints.files import list_folder
from mha_viz.errors import UnsafeCheckpointError

_LINES = ("*.txt", "*.tiktoken", "*.codes", "*.bpe", "merges*")
_PIECES = ("*.model", "*.spm", "*.vocab")
_JSON = (
    "tokenizer*.json",
    "vocab*.json",
    "*_vocab.json",
    "added_tokens.json",
    "special_tokens*.json",
)
_VALUES = 5  # that a JSON file may have for each token: its number, its score, two of a merge
_PIECE = b"\n"  # the first byte of each piece in a file of SentencePiece, and of a line's end


def check_counts(folder: Path, most: int, most_nodes: int) -> None:
    """Refuse files of a tokenizer with more lines, values or pieces than any vocabulary has."""
    for path in list_folder(folder):
        name = path.name.lower()
        if any(fnmatch(name, pattern) for pattern in _JSON):
            _check(path, "values", path.read_bytes().count(b","), _VALUES * most)
        elif any(fnmatch(name, pattern) for pattern in _LINES):
            if name.startswith(("vocab", "merges", "tokenizer", "dict")) or name[-3:] != "txt":
                _check(path, "lines", path.read_bytes().count(_PIECE), most)
        elif any(fnmatch(name, pattern) for pattern in _PIECES):
            content = path.read_bytes()
            if content.count(_PIECE) > most or len(content) > most_nodes:
                pieces = list(_pieces(content, most))
                _check(path, "pieces", len(pieces), most)
                _check(path, "beginnings of pieces", count_nodes(pieces, most_nodes), most_nodes)


def count_nodes(tokens: Sequence[bytes], most: int) -> int:
    """Count the nodes of the tree that a Unigram model makes of its tokens; 300 bytes each.

    They are the different beginnings of tokens. Where all tokens together have no more than `most`
    bytes, it is those, which are as many or more.

    >>> count_nodes([b"the", b"a", b"this"], 8), count_nodes([b"the", b"a", b"this"], 7)
    (8, 6)
    """
    n_bytes = sum(map(len, tokens))
    if n_bytes <= most:
        return n_bytes
    count, before = 0, b""
    for token in sorted(tokens):
        shortest = min(len(before), len(token))
        shared = next((i for i in range(shortest) if before[i] != token[i]), shortest)
        count += len(token) - shared
        before = token
    return count


def _pieces(content: bytes, most: int) -> Iterator[bytes]:
    """Yield the text of each piece of a SentencePiece model, up to one more than `most`.

    It is a message of protobuf whose first field comes once for each piece, a message whose first
    field is the text.
    """
    at = n = 0
    while at < len(content) and content[at] == _PIECE[0] and n <= most:
        length, at = _number(content, at + 1)
        size, start = _number(content, at + 1)
        yield content[start : start + min(size, length)]
        at += length
        n += 1


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, seven bits to a byte, and where it ends."""
    number, shift = 0, 0
    while at < len(content) and shift < 35:
        number |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not content[at - 1] & 0x80:
            break
    return number, at


def _check(path: Path, noun: str, count: int, most: int) -> None:
    if count > most:
        raise UnsafeCheckpointError(
            f"{path.name} of {path.parent.name} has {count:,} {noun}; a real one has at most "
            f"{most:,}."
        )
