"""Studies at addresses of fsspec: fetched, put, and not trusted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import mha_viz as mv
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run import run
from mha_viz.corpus.sources import source
from mha_viz.corpus.store.address import Address
from mha_viz.errors import StudyError, WriteError
from tests.corpus.small_studies import TEXTS

URL = "memory://bucket/study"


@pytest.fixture
def memory() -> Iterator[Any]:
    """What memory:// holds."""
    found = fsspec.filesystem("memory")
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


@pytest.fixture(scope="module")
def in_shards(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a study whose three shards were not deleted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "SHARD_TEXTS", 3)
        patch.setattr(run, "remove_shards", lambda folder: None)
        return mv.study(bert, TEXTS, tmp_path_factory.mktemp("shards") / "study")


@pytest.fixture
def there(in_shards: Study, memory: Any) -> Address:
    """Return the address of a copy of that study."""
    address = Address(URL)
    for number in range(3):
        address.put_shard(in_shards.folder, number)
    address.put(in_shards.folder, [*in_shards.manifest["files"], "study.json"])
    return address


def test_other_things_stay_as_they_are(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/study/thesis.tex", b"mine")
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        Address(URL).fetch(tmp_path)


@pytest.mark.parametrize("name", ["../../../evil.parquet", "/tmp/evil.parquet", "evil.sh"])
def test_names_that_lead_elsewhere_are_not_followed(
    there: Address, memory: Any, tmp_path: Path, name: str
) -> None:
    place = "/bucket/study/shards/00000/shard.json"
    memory.pipe(place, json.dumps({"files": {name: 1}}).encode())
    with pytest.raises(StudyError, match=r"shards/00000/shard\.json"):
        there.fetch_shard(0, tmp_path)
    memory.pipe(place, b"[]")
    with pytest.raises(StudyError, match="cannot be read"):
        there.fetch_shard(0, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_told(in_shards: Study, tmp_path: Path) -> None:
    (tmp_path / "study").write_text("a file")
    with pytest.raises(WriteError, match=r"file://.*study"):
        Address(f"file://{tmp_path}/study").put(in_shards.folder, ["study.json"])


def test_a_kind_of_address_that_nobody_knows() -> None:
    with pytest.raises(StudyError, match="nowhere://bucket"):
        Address("nowhere://bucket")


def test_a_study_at_an_address_is_copied_before_it_is_opened() -> None:
    for address in (URL, Path(URL)):
        with pytest.raises(StudyError, match="bucket/study"):
            mv.Study.load(address)
