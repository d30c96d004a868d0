"""Studies at addresses of fsspec: fetched, and put."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import mha_viz as mv
from mha_viz.corpus.store.address import Address
from mha_viz.corpus.store.study_file import FILE, UNFINISHED
from mha_viz.errors import StudyError, WriteError

URL = "memory://bucket/study"


@pytest.fixture
def memory() -> Iterator[Any]:
    """What memory:// holds."""
    found = fsspec.filesystem("memory")
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


def test_a_study_is_put_whole_and_fetched_again(
    made: mv.Study, memory: Any, tmp_path: Path
) -> None:
    address = Address(URL)
    memory.pipe(f"/bucket/study/{UNFINISHED}", b"what was there before")
    address.put(made.folder)
    assert [Path(path).name for path in memory.ls("/bucket/study", detail=False)] == [FILE]
    address.fetch(tmp_path)
    assert mv.Study.load(tmp_path).heads.equals(made.heads)


def test_other_things_stay_as_they_are(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/study/thesis.tex", b"mine")
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        Address(URL).fetch(tmp_path)


def test_a_place_that_cannot_be_written_is_told(made: mv.Study, tmp_path: Path) -> None:
    (tmp_path / "study").write_text("a file")
    with pytest.raises(WriteError, match=r"file://.*study"):
        Address(f"file://{tmp_path}/study").put(made.folder)


def test_a_kind_of_address_that_nobody_knows() -> None:
    with pytest.raises(StudyError, match="nowhere://bucket"):
        Address("nowhere://bucket")


def test_a_study_at_an_address_is_copied_before_it_is_opened() -> None:
    for address in (URL, Path(URL)):
        with pytest.raises(StudyError, match="bucket/study"):
            mv.Study.load(address)
