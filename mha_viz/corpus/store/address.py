"""A study at an address that fsspec knows, as s3://bucket/study: its file, fetched and put."""

import re
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec

from mha_viz.corpus.store.study_file import FILE, UNFINISHED
from mha_viz.errors import MhaVizError, StudyError, WriteError, translating

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters at least: C:/ is a disk


def is_address(path: object) -> bool:
    """Tell whether a study's place is no folder of this machine.

    >>> is_address("s3://bucket/study"), is_address("C:/studies"), is_address("studies/one")
    (True, False, False)
    """
    return _ADDRESS.match(str(path)) is not None


class Address:
    """A study at an address; a machine that works on it keeps a copy."""

    def __init__(self, url: str) -> None:
        self.url = url
        with self._translating(StudyError, "read"):
            self._files, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")

    def fetch(self, folder: Path) -> None:
        """Copy the study into an empty folder, as far as it is there."""
        self._files.invalidate_cache()
        with self._translating(StudyError, "read"):
            paths = (
                self._files.ls(self._root, detail=False) if self._files.exists(self._root) else ()
            )
        names = sorted(path.rstrip("/").rpartition("/")[2] for path in paths)
        ours = [name for name in (FILE, UNFINISHED) if name in names]
        if names and not ours:
            raise StudyError(
                f"{self.url} holds other things ({names[0]}) and no study: give a new address, or "
                "that of a study to go on with."
            )
        for name in ours[:1]:
            with self._translating(StudyError, "read"):
                self._files.get_file(f"{self._root}/{name}", str(folder / name))

    def put(self, folder: Path) -> None:
        """Copy the study of a folder to the address; once it is finished, in place of what was."""
        name = FILE if (folder / FILE).exists() else UNFINISHED
        with self._translating(WriteError, "written"):
            self._files.makedirs(self._root, exist_ok=True)
            self._files.put_file(str(folder / name), f"{self._root}/{name}")
            if name == FILE and self._files.exists(f"{self._root}/{UNFINISHED}"):
                self._files.rm(f"{self._root}/{UNFINISHED}")

    def _translating(
        self, kind: type[StudyError | WriteError], done: str
    ) -> AbstractContextManager[None]:
        """Raise an error of this kind, in words, for what fsspec says."""

        def cannot(error: BaseException) -> MhaVizError:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            first = str(reason).strip().partition("\n")[0].rstrip(".")
            return kind(
                f"{self.url} cannot be {done}: {first}. What is complete of the study stays; the "
                "same command goes on from there."
            )

        return translating(cannot)
