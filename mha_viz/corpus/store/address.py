"""A study at an address that fsspec knows, as s3://bucket/study: its parts, fetched and put."""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import fsspec

from mha_viz.corpus.store.storage import MANIFEST, PARTS, SHARDS, SUMMARY, shard_folder
from mha_viz.errors import StudyError, WriteError, translating

T = TypeVar("T")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters at least: C:/ is a disk
_TABLE = re.compile(r"[a-z_]+\.parquet")  # the name of one; what an address holds is not trusted


def is_address(place: object) -> bool:
    """Tell whether a study's place is no folder of this machine.

    >>> is_address("s3://bucket/study"), is_address("C:/studies"), is_address("studies/one")
    (True, False, False)
    """
    return _ADDRESS.match(str(place)) is not None


class Address:
    """A study at an address: a part is complete once its shard.json, put last, is there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, root = self._translated(lambda: fsspec.core.url_to_fs(url))
        self._root = root.rstrip("/")

    def fetch(self, folder: Path) -> None:
        """Copy what is complete of the study into an empty folder, if anything is there."""
        self._files.invalidate_cache()
        names = self._translated(self._names)
        if names and MANIFEST not in names:
            raise StudyError(
                f"{self.url} holds other things ({names[0]}) and no study: give a new address, or "
                "that of a study to go on with."
            )
        for name in names:
            if name == MANIFEST or _TABLE.fullmatch(name):
                self._fetch_file(name, folder)
        for rows in (SHARDS, PARTS) if names else ():
            for name in self._complete(rows):
                self._fetch_part(f"{rows}/{name}", folder)

    def fetch_shard(self, number: int, folder: Path) -> None:
        """Copy one complete shard to its place in a folder, unless it is there."""
        self._fetch_part(f"{SHARDS}/{shard_folder(folder, number).name}", folder)

    def _fetch_part(self, below: str, folder: Path) -> None:
        place = folder / below
        with (
            translating(lambda error: StudyError(self._cannot("read", error))),
            tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as draft,
        ):
            if place.exists():
                return
            self._fetch_file(f"{below}/{SUMMARY}", Path(draft))
            whole = Path(draft, below)
            for name in json.loads((whole / SUMMARY).read_text("utf-8"))["files"]:
                if not _TABLE.fullmatch(name):
                    raise StudyError(f"{self.url} is damaged: {below}/{SUMMARY} was changed.")
                self._fetch_file(f"{below}/{name}", Path(draft))
            place.parent.mkdir(exist_ok=True)
            whole.replace(place)

    def put_shard(self, folder: Path, number: int) -> None:
        """Copy one shard of a folder to the address, what says that it is complete last."""
        place = shard_folder(folder, number)
        below = f"{SHARDS}/{place.name}"
        names = sorted(path.name for path in place.iterdir() if path.name != SUMMARY)
        self.put(folder, [f"{below}/{name}" for name in (*names, SUMMARY)])

    def put(self, folder: Path, names: list[str]) -> None:
        """Copy files of a folder to the address, in this order."""
        with translating(lambda error: WriteError(self._cannot("written", error))):
            for name in names:
                target = f"{self._root}/{name}"
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                self._files.put_file(str(folder / name), target)

    def remove_shards(self) -> None:
        """Delete the shards of a study whose parts were put."""
        with translating(lambda error: WriteError(self._cannot("written", error))):
            if self._files.exists(f"{self._root}/{SHARDS}"):
                self._files.rm(f"{self._root}/{SHARDS}", recursive=True)

    def _complete(self, rows: str) -> list[str]:
        """List the names of the shards, or of the parts, that are complete."""
        found = self._translated(lambda: self._files.glob(f"{self._root}/{rows}/*/{SUMMARY}"))
        names = (path.split("/")[-2] for path in found)
        return sorted(name for name in names if name.isdecimal())

    def _names(self) -> list[str]:
        if not self._files.exists(self._root):
            return []
        found = self._files.ls(self._root, detail=False)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def _fetch_file(self, name: str, folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        self._translated(lambda: self._files.get_file(f"{self._root}/{name}", str(folder / name)))

    def _translated(self, read: Callable[[], T]) -> T:
        with translating(lambda error: StudyError(self._cannot("read", error))):
            return read()

    def _cannot(self, done: str, error: BaseException) -> str:
        reason: Any = getattr(error, "strerror", None) or str(error) or type(error).__name__
        first = str(reason).strip().partition("\n")[0].rstrip(".")
        return (
            f"{self.url} cannot be {done}: {first}. What is complete of the study stays; the same "
            "command goes on from there."
        )
