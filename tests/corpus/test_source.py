"""Corpora of all kinds: their texts in order, what was skipped, and whether it is the same one."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mha_viz.corpus.sources import one_pass_source
from mha_viz.corpus.sources.source import MOST_KEPT, Source, open_source
from mha_viz.errors import ArgumentError, SourceError


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
    assert [(item.number, item.place) for item in source][2:] == [
        (2, "texts:3"),
        (3, "texts:6"),
        (4, "texts:7"),
    ]


def test_what_is_no_string_is_skipped() -> None:
    source = open_source(["One.", 2, None, "Four."])
    assert texts(source) == ["One.", "Four."]
    assert [place for place, _ in source.skipped] == ["texts:2", "texts:3"]


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
    found = [(item.place, item.text) for item in source]
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


def test_a_folder_that_may_not_be_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").write_text("A.\n")
    scan = os.scandir

    def refusing(path: object) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    source = open_source(tmp_path)
    assert texts(source) == ["A."]
    assert source.skipped == [("closed", "Permission denied.")]


@pytest.mark.parametrize("sample", [None, 20])
def test_of_a_large_file_little_is_held(tmp_path: Path, sample: int | None) -> None:
    large = tmp_path / "large.jsonl"
    with large.open("w") as file:
        for i in range(2000):
            file.write(json.dumps({"text": f"{i:04} " * 625}) + "\n")
    source = open_source(large, sample=sample, seed=1)
    tracemalloc.start()
    assert sum(1 for _ in source) == (sample or 2000)
    source.identity()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert large.stat().st_size > 6_000_000 > 10 * held


def test_standard_input_and_pipes_are_read_once_and_kept_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"One.\nTwo.\n")))
    source = open_source("-")
    assert [texts(source) for _ in range(2)] == [["One.", "Two."]] * 2
    assert next(iter(source)).place == "standard input:1"

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


def test_a_copy_is_read_from_any_place() -> None:
    content = bytes(range(256)) * 1000
    copy = one_pass_source.TemporaryCopy("bytes", lambda file: file.write(content))
    reading = copy.open()
    for offset, whence in ((-5, 2), (1000, 0), (70_000, 1), (-9, 1), (0, 0)):
        expected = io.BytesIO(content)
        expected.seek(reading.tell())
        assert reading.seek(offset, whence) == expected.seek(offset, whence)
        assert reading.read(3000) == expected.read(3000)
    copy.close()


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (KeyError("theirs"), KeyError, "theirs"),
        (
            OSError(28, "No space left on device"),
            SourceError,
            "texts cannot be copied to .*: No sp",
        ),
    ],
)
def test_what_goes_wrong_while_copying_is_told(
    raised: Exception, expected: type[Exception], said: str
) -> None:
    def failing() -> Iterator[str]:
        yield "One."
        raise raised

    with pytest.raises(expected, match=said):
        open_source(failing())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere.txt", "There is no file or folder “nowhere.txt”"),
        ("The cat sat.\0", "There is no file or folder “The cat sat.␀”"),
        (7, "got int"),
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


def test_the_places_of_the_first_hundred_are_kept_and_all_are_counted() -> None:
    source = open_source(["One.", *[""] * 250])
    for _ in range(2):
        assert texts(source) == ["One."]
        assert source.n_skipped == 250
        assert source.skipped == [
            (f"texts:{n}", "The text is empty.") for n in range(2, MOST_KEPT + 2)
        ]


def test_a_sample_keeps_numbers_and_places() -> None:
    said = [f"Text {i}." if i % 3 else "" for i in range(1500)]
    whole = list(open_source(said))
    source = open_source(said, sample=100, seed=5)
    drawn = list(source)
    assert drawn == list(source) == [item for item in whole if item in drawn]
    assert len(drawn) == 100 and source.n_skipped == 500
    assert drawn != list(open_source(said, sample=100, seed=6))


def test_identity_tells_another_source() -> None:
    said = ["One.", "Two."]
    same = open_source(iter(said)).identity()
    assert same == open_source(said).identity() == json.loads(json.dumps(same))
    others = [
        open_source(["One.", "Two!"]),
        open_source(["One.Two."]),
        open_source(said, sample=2),
        open_source(said, seed=1),
        open_source(said, column="text"),
    ]
    assert all(other.identity() != same for other in others)
