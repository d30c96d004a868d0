"""Every file of a study compared with the hash that was taken when it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mha_viz.core.asking import ask
from mha_viz.core.showing import count
from mha_viz.corpus.integrity import HASHES, has_hash
from mha_viz.corpus.storage import (
    MANIFEST,
    SUMMARY,
    n_in_totals,
    read_manifest,
    read_summary,
    shard_folder,
    totals_folder,
)
from mha_viz.errors import StudyError

_NAMED = 5  # files that a sentence has room for


class Verified(NamedTuple):
    """Files that are as they were written: how many, and how many bytes they have."""

    n_files: int
    n_bytes: int


def verify_study(folder: str | Path) -> Verified:
    """Compare every file of a finished study with its hash.

    Args:
        folder: of the study.

    Raises:
        StudyError: no finished study, one that is older than hashes, or one with files that are
            missing or were changed; it names them.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if not manifest["finished"]:
        raise StudyError(f"The study {folder} is not finished: verify it once it is.")
    if HASHES not in manifest:
        raise StudyError(
            f"The study {folder} cannot be verified: an earlier version of mha-viz made it, "
            "without hashes of its files. Make it again to have them."
        )
    compared = list(_compared(folder, manifest))
    changed = [name for name, size in compared if size is None]
    if changed:
        more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
        raise StudyError(
            f"The study {folder} is damaged: {count(len(changed), 'file')} of {len(compared):,} "
            f"missing or changed ({', '.join(changed[:_NAMED])}{more}). Restore them, or delete "
            "the folders of these parts and give the command that made the study again."
        )
    return Verified(len(compared), sum(size for _, size in compared if size is not None))


def _compared(folder: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Each file with its size; None where it is missing or was changed."""
    yield MANIFEST, (folder / MANIFEST).stat().st_size  # reading it has compared it
    yield from _of_one_folder(folder, "", manifest)
    begin = n_in_totals(folder)
    parts = [totals_folder(folder, begin)] if begin else []
    numbers = range(begin, manifest["counts"]["n_shards"])
    for place in [*parts, *(shard_folder(folder, number) for number in numbers)]:
        below = f"{place.relative_to(folder).as_posix()}/"
        try:
            summary = read_summary(folder, place)
        except StudyError:
            yield below + SUMMARY, None
            continue
        yield below + SUMMARY, (place / SUMMARY).stat().st_size if HASHES in summary else None
        yield from _of_one_folder(place, below, summary)


def _of_one_folder(
    place: Path, below: str, about: Mapping[str, Any]
) -> Iterator[tuple[str, int | None]]:
    """The tables that a JSON file lists."""
    for name in about["files"]:
        ask()
        path = place / name
        own = path.parent == place and has_hash(path, about.get(HASHES, {}).get(name))
        yield below + name, path.stat().st_size if own else None
