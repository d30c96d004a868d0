"""Corpora of all kinds: their texts in order, what was skipped, and whether it is the same one."""

import gc
import gzip
import io
import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, cycle, islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy import stats

from mha_viz.corpus.sources import sampling
from mha_viz.corpus.sources.readers import ending_of, passages
from mha_viz.corpus.sources.reading import OpenFile
from mha_viz.corpus.sources.sampling import SeenTexts, fair_sample
from mha_viz.corpus.sources.source import Source, open_source
from mha_viz.errors import ArgumentError, SourceError
from tests.corpus.test_readers import as_parquet


def texts(source: Source) -> list[str]:
    return [item.text for item in source]


def test_strings_of_any_kind() -> None:
    said = ["One.", "a\r\nb", " Two, with 猫. ", "half \ud83d", "", "whole \ud83d\ude00", "Six."]
    for given in (said, tuple(said), iter(said), (text for text in said)):
        source = open_source(given)
        for _ in range(2):  # what can be read once was kept
            assert texts(source) == ["One.", "a\nb", " Two, with 猫. ", "whole 😀", "Six."]
            assert source.skipped == [
                ("texts:4", "The text is not valid Unicode: half a character (U+D83D) at position "
                 "6. Delete it or type it again."),
                ("texts:5", "The text is empty."),
            ]  # fmt: skip
    assert [(item.number, item.location) for item in source][2:] == [
        (2, "texts:3"),
        (3, "texts:6"),
        (4, "texts:7"),
    ]


def test_a_folder_in_the_order_of_names(tmp_path: Path) -> None:
    for name, content in {
        "b.txt": b"B1.\nB\xff2.\nB3.\n",
        "a/z.csv": b"text\nAZ.\n",
        "a/b.jsonl.gz": gzip.compress(b'{"content": "AB."}\n'),
        "a.txt": b"A.\n",
        "c.parquet": b"no Parquet",
        "README": b"Read me.\n",
        ".git/x.txt": b"hidden",
        ".x.txt": b"hidden",
        "d.txt.gz": gzip.compress(b"D.\n" * 40_000, compresslevel=0)[:-1000],
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "e").symlink_to(tmp_path / "a")
    source = open_source(tmp_path)
    found = [(item.location, item.text) for item in source]
    assert found[:5] == [
        ("a.txt:1", "A."),
        ("a/b.jsonl.gz:1", "AB."),
        ("a/z.csv:2", "AZ."),
        ("b.txt:1", "B1."),
        ("b.txt:3", "B3."),
    ]
    assert found[5:] and {text for _, text in found[5:]} == {"D."}  # what came before the damage
    assert [place for place, _ in source.skipped] == [
        "README", "e", "b.txt:2", "c.parquet", "d.txt.gz",
    ]  # fmt: skip
    assert source.skipped[2][1] == "The byte 0xFF in it is not UTF-8."
    assert [file["name"] for file in source.identity()["files"]] == [
        "a.txt", "a/b.jsonl.gz", "a/z.csv", "b.txt", "c.parquet", "d.txt.gz",
    ]  # fmt: skip


def test_standard_input_and_pipes_are_read_once_and_kept_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"One.\nTwo.\n")))
    source = open_source("-")
    assert [texts(source) for _ in range(2)] == [["One.", "Two."]] * 2
    assert next(iter(source)).location == "standard input:1"

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[gzip.compress(b'{"text": "One."}\n')])
    writer.start()
    other = open_source(pipe)
    writer.join()
    assert [texts(other) for _ in range(2)] == [["One."]] * 2

    assert list(tmp_path.iterdir()) == [pipe]  # whatever ends us leaves nothing
    first, second = iter(source), iter(source)
    assert [next(first).text, next(second).text, next(first).text] == ["One.", "One.", "Two."]
    copy = other._files[0].open.__self__
    assert not copy._file.closed
    del other
    gc.collect()
    assert copy._file.closed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere.txt", "There is no file or folder “nowhere.txt”"),
        ("The cat sat.\0", "There is no file or folder “The cat sat.␀”"),
        (7, "got int"),
        ([2, None], "There is no text to study in texts. Skipped first, texts:1: "),
        (b"bytes", "got bytes"),
        ({"text": "One."}, "got dict"),
        ([], "There is no text to study in texts."),
        ([" "], "There is no text to study in texts. Skipped first, texts:1: The text is empty."),
        ("/dev/null", "neither a file of texts nor a folder"),
    ],
)
def test_a_useless_source_is_told_in_one_sentence(given: object, said: str) -> None:
    with pytest.raises(SourceError) as error:
        texts(open_source(given))
    assert said in str(error.value)


def test_a_useless_file_or_folder_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"\.txt"):
        open_source(tmp_path)
    table = tmp_path / "a.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match=r"column.*a\.csv"):
        texts(open_source(str(table)))
    (tmp_path / "b.csv").write_text("c,d\n1,2\n")
    with pytest.raises(SourceError, match=r"a\.csv: .*column.*a\.csv"):
        texts(open_source(tmp_path))
    with pytest.raises(ArgumentError, match="sample=0"):
        open_source(table, sample=0)


def drawn(n: int, size: int, seed: int) -> tuple[int, ...]:
    return tuple(fair_sample(iter(range(n)), size, seed))


def test_a_sample_is_fair_and_follows_its_seed() -> None:
    found = Counter(drawn(7, 3, seed) for seed in range(1400))
    choices = list(combinations(range(7), 3))
    assert set(found) == set(choices)  # in order, too
    assert stats.chisquare([found[choice] for choice in choices]).pvalue > 0.01
    found = Counter(number // 50 for seed in range(50) for number in drawn(1000, 40, seed))
    assert stats.chisquare([found[part] for part in range(20)]).pvalue > 0.01
    assert drawn(1000, 50, 3) == drawn(1000, 50, 3) != drawn(1000, 50, 4)
    assert set(drawn(1000, 50, 3)) < set(drawn(1000, 80, 3))
    assert drawn(5, 50, 3) == (0, 1, 2, 3, 4)


def test_seen_texts_are_those_of_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try also when most of them have been merged into sorted runs."""
    monkeypatch.setattr(sampling, "_RECENT", 7)
    drawn = [f"{random.Random(i).randrange(400)} cats" for i in range(1_009)]
    seen, known = SeenTexts(), set[str]()
    for text in drawn:
        assert seen.add(text) == (text not in known)
        known.add(text)
    assert len(seen._runs) <= 7 and sum(map(len, seen._runs)) > 300


def test_source_leaves_copies_out_and_counts_them() -> None:
    source = open_source(["One.", " One. ", "Two.", "", "one.", "Two.", "One."])
    for _ in range(2):
        assert [(item.number, item.text) for item in source] == [
            (0, "One."),
            (1, "Two."),
            (2, "one."),
        ]
        assert (source.n_duplicates, source.n_skipped) == (3, 1)
    source = open_source([f"Text {i % 13}." for i in range(1_009)], sample=13, seed=3)
    assert len({item.text for item in source}) == 13


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
