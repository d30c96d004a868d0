"""Checks of a finished study: whether it is whole, and whether every file has its hash."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.reprs import count
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.address import is_address
from mha_viz.corpus.store.blocks import parts_of
from mha_viz.corpus.store.integrity import HASHES, check_files, has_hash
from mha_viz.errors import StudyError

_NAMED = 5  # files that a sentence has room for


class Verified(NamedTuple):
    """Files that are as they were written: how many, and how many bytes they have."""

    n_files: int
    n_bytes: int


def verify_study(folder: str | Path) -> Verified:
    """Compare every file of a finished study with its hash.

    Raises:
        StudyError: no finished study, one that is older than hashes, or one with files that are
            missing or were changed; it names them.
    """
    folder = Path(folder)
    manifest = storage.read_manifest(folder)
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


def whole_manifest(folder: str | Path) -> dict[str, Any]:
    """Read study.json of a finished study with all its files; else raise StudyError."""
    if is_address(folder):
        raise StudyError(
            f"{folder} is an address: copy the study into a folder first (`aws s3 cp --recursive`, "
            "`gcloud storage cp -r` or the like), and open that."
        )
    folder = Path(folder)
    manifest = storage.read_manifest(folder)
    if not manifest["finished"]:
        raise StudyError(
            f"The study {folder} is not finished: give the command that began it again, and it "
            "goes on."
        )
    check_files(folder, folder, manifest["files"])
    if (lost := missing_part(folder, manifest)) is not None:
        raise StudyError(
            f"The study {folder} lacks its part {lost}: restore it, or give the command that made "
            "the study again, which makes that part anew."
        )
    return manifest


def missing_part(folder: Path, manifest: Mapping[str, Any]) -> str | None:
    """Return the name of the first part that a finished study lacks; None: it lacks none.

    StudyError where a file in one is missing or was cut.
    """
    parts = parts_of(manifest)
    for part in parts or ():
        place = storage.part_folder(folder, part.name)
        if not place.exists():
            return part.name
        check_files(folder, place, part.files)
    if parts is None:  # rows lie in shards, of which the first ones may be in the totals
        begin = storage.n_in_totals(folder)
        if begin:
            storage.read_part(folder, storage.totals_folder(folder, begin))
        for number in range(begin, manifest["counts"]["n_shards"]):
            if storage.read_shard(folder, number) is None:
                return f"{number:05d}"
    return None


@contextmanager
def refusing_damage(folder: str | Path) -> Iterator[None]:
    """Raise StudyError for whatever a changed study.json leads to."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        changed = "study.json was changed. Restore it, or make it anew."
        raise StudyError(f"The study {folder} is damaged: {changed}") from error


def _compared(folder: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield each file with its size; None where it is missing or was changed."""
    yield storage.MANIFEST, (folder / storage.MANIFEST).stat().st_size  # reading it has compared it
    yield from _of_one_folder(folder, "", manifest)
    places = [storage.part_folder(folder, part.name) for part in parts_of(manifest) or ()]
    if "parts" not in manifest:
        begin = storage.n_in_totals(folder)
        places = [storage.totals_folder(folder, begin)] if begin else []
        numbers = range(begin, manifest["counts"]["n_shards"])
        places += [storage.shard_folder(folder, number) for number in numbers]
    for place in places:
        below = f"{place.relative_to(folder).as_posix()}/"
        try:
            summary = storage.read_summary(folder, place)
        except StudyError:
            yield below + storage.SUMMARY, None
            continue
        size = (place / storage.SUMMARY).stat().st_size
        yield below + storage.SUMMARY, size if HASHES in summary else None
        yield from _of_one_folder(place, below, summary)


def _of_one_folder(
    place: Path, below: str, about: Mapping[str, Any]
) -> Iterator[tuple[str, int | None]]:
    """Yield the tables that a JSON file lists."""
    for name in about["files"]:
        check_cancelled()
        path = place / name
        own = path.parent == place and has_hash(path, about.get(HASHES, {}).get(name))
        yield below + name, path.stat().st_size if own else None
