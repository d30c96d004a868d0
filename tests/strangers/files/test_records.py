"""Record files from strangers: each is a record that can be used, or refused by a sentence."""

import json
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from mha_viz.core.record import file
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import RecordError
from tests.core.records import make
from tests.strangers.files.damage import as_json, damaged, forged
from tests.strangers.fuzzing import fuzzed


def parts_of(content: bytes) -> tuple[dict, bytes]:
    """The header of a safetensors file, and the numbers after it."""
    (size,) = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header: dict, numbers: bytes) -> bytes:
    text = as_json(header)
    return struct.pack("<Q", len(text)) + text + numbers


def _whole() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return make().save(Path(folder) / "r").read_bytes()


HEADER, NUMBERS = parts_of(_whole())
del HEADER["__metadata__"][file.HASH]  # anybody can leave it out
CONTENT = joined(HEADER, NUMBERS)
ABOUT = json.loads(HEADER["__metadata__"]["record"])


def opened(content: bytes, path: Path) -> str:
    """The sentence that refuses a file; "" of one whose record can be shown."""
    path.write_bytes(content)
    try:
        found = AttentionRecord.load(path)
    except RecordError as error:
        return str(error)
    assert f"{found!r}{found.labels}{found.key_labels}".encode()
    assert found.pattern.ndim == 4
    return ""


@given(content=damaged(CONTENT))
@fuzzed(daily=60, long=2_000)
def test_damaged_records(content: bytes, tmp_path: Path) -> None:
    assert len(opened(content, tmp_path / "r")) < 1_000


@given(header=forged(HEADER))
@fuzzed(daily=100, long=2_000)
def test_headers_that_lie(header: dict, tmp_path: Path) -> None:
    assert len(opened(joined(header, NUMBERS), tmp_path / "r")) < 1_000


@given(about=forged(ABOUT))
@fuzzed(daily=150, long=3_000)
def test_descriptions_that_lie(about: dict, tmp_path: Path) -> None:
    told = {"format": file.FORMAT, "record": json.dumps(about)}
    content = joined(HEADER | {"__metadata__": told}, NUMBERS)
    assert len(opened(content, tmp_path / "r")) < 1_000


def test_a_header_larger_than_any_record_has_is_not_read(tmp_path: Path) -> None:
    told = {"format": file.FORMAT, "record": "[" + "[]," * 3_000_000 + "0]"}
    said = opened(joined(HEADER | {"__metadata__": told}, NUMBERS), tmp_path / "r")
    assert "cannot be read as a record: its header has" in said and "8,000,000 at the most" in said


def test_half_a_character_is_refused_by_whoever_reads_it(tmp_path: Path) -> None:
    path = make(text="a \ud800 b").save(tmp_path / "r")
    with pytest.raises(RecordError, match="surrogates not allowed"):
        AttentionRecord.load(path)
