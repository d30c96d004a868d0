"""Parts of a finished study: rows of single texts, those of many shards in one file."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.integrity import HASHES
from mha_viz.corpus.store.storage import PARTS, SHARDS, SUMMARY, part_folder, shard_folder
from mha_viz.errors import StudyError

# Edges lie beside them, sorted; all other tables of shards are sums, which the study has of all.
_MERGED = "texts untrained chance sentences arcs words parses untrained_parses".split()
PART_BYTES = 256 * 2**20  # of the rows in a part, about


class Part(NamedTuple):
    """A part as study.json lists it."""

    first: int  # number of its first shard
    n_shards: int  # in it
    files: dict[str, int]  # their sizes
    digest: str  # of its shard.json, in which the hashes of its files stand

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.first:05d}"

    @property
    def numbers(self) -> range:
        """The numbers of its shards."""
        return range(self.first, self.first + self.n_shards)


def parts_of(manifest: Mapping[str, Any]) -> list[Part] | None:
    """Return the parts that study.json lists; None: rows lie in shards, or none were kept."""
    return None if "parts" not in manifest else [Part(**part) for part in manifest["parts"]]


def merge_shards(folder: Path, n_shards: int) -> list[Part]:
    """Write the rows of all shards into parts of about `PART_BYTES` each; shards stay."""
    found: list[Part] = []
    begin, size = 0, 0
    for number in range(n_shards):
        place = shard_folder(folder, number)
        size += sum(path.stat().st_size for path in place.iterdir() if path.stem in _MERGED)
        if size >= PART_BYTES or number == n_shards - 1:
            found.append(merge(folder, range(begin, number + 1)))
            begin, size = number + 1, 0
    return found


def merge(folder: Path, numbers: range) -> Part:
    """Write the rows of some shards into one part."""
    shards = [shard_folder(folder, number) for number in numbers]
    found = {name: [shard / f"{name}.parquet" for shard in shards] for name in _MERGED}
    tables = {name: _rows(paths) for name, paths in found.items() if any(map(Path.exists, paths))}
    place = part_folder(folder, f"{numbers[0]:05d}")
    about = storage.write_part(folder, place, tables, {"n_shards": len(numbers)})
    digest = storage.read_summary(folder, place)[HASHES][SUMMARY]
    return Part(numbers[0], len(numbers), about["files"], digest)


def _rows(paths: Sequence[Path]) -> Iterator[pa.Table]:
    for path in filter(Path.exists, paths):
        check_cancelled()
        yield storage.read_table(path)


def mend(folder: Path, part: Part) -> None:
    """Write a part anew from its shards; StudyError where it is not what it was."""
    if merge(folder, part.numbers) != part:
        shutil.rmtree(part_folder(folder, part.name))
        raise StudyError(
            f"The part {PARTS}/{part.name} of {folder} cannot be made anew as it was: the model, "
            "the libraries or the processor add up otherwise. Restore it, or make the study anew "
            "in another folder."
        )


def remove_shards(folder: Path) -> None:
    """Delete the shards of a finished study: their rows are in parts, and their sums are added."""
    with storage.writing(folder):
        if (folder / SHARDS).exists():
            shutil.rmtree(folder / SHARDS)
