"""How much of a file of texts is read: of an endless one no more than is used."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain, cycle, islice

import pytest

from mha_viz.corpus.sources.readers import ending_of, passages
from mha_viz.corpus.sources.reading import OpenFile
from tests.corpus.test_readers import as_parquet


class Counted(io.RawIOBase):
    """A file without end, which counts what was asked of it."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines, self.n_read, self.begin = lines, 0, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while len(self.begin) < len(buffer):
            self.begin += next(self.lines)
        taken, self.begin = self.begin[: len(buffer)], self.begin[len(buffer) :]
        buffer[:] = taken
        self.n_read += len(taken)
        return len(taken)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return offset  # every part of it is like every other


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.txt", b"One.\n"),
        ("a.jsonl", b'{"text": "One."}\n'),
        ("a.json", b'{"text": "One."},\n'),
        ("a.csv", b'"text"\n'),
    ],
)
def test_of_an_endless_file_no_more_than_its_beginning_is_read(name: str, line: bytes) -> None:
    file = Counted(chain([b"["] if name == "a.json" else [], cycle([line])))
    found = passages(OpenFile(io.BufferedReader(file), name, None, pytest.fail), ending_of(name))
    assert len(list(islice(found, 1000))) == 1000
    assert file.n_read < 300_000


def test_of_a_line_without_end_no_more_than_a_part_is_held() -> None:
    file = Counted(iter([b"x" * 2**16] * 200 + [b"\n"] + [b"One.\n"] * 2**16))
    skipped: list[tuple[str, str]] = []
    found = passages(
        OpenFile(io.BufferedReader(file), "a", None, lambda *skip: skipped.append(skip)), ""
    )
    assert next(found).text == "One."
    assert [place for place, _ in skipped] == ["a:1"]


def test_of_a_parquet_file_no_more_than_a_row_group_is_read() -> None:
    class Asked(io.BytesIO):
        n_read = 0

        def read(self, size: int | None = -1) -> bytes:
            got = super().read(size)
            self.n_read += len(got)
            return got

    texts = [f"{i:08} " * 50 for i in range(20_000)]
    file = Asked(as_parquet(texts, row_group_size=500, compression="none", use_dictionary=False))
    found = passages(OpenFile(file, "a.parquet", None, pytest.fail), ".parquet")
    assert len(list(islice(found, 100))) == 100
    assert file.n_read < len(file.getvalue()) / 5
