"""The place of a study's file, and errors for what a changed manifest leads to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mha_viz.corpus.store.address import is_address
from mha_viz.corpus.store.older_format import convert_older
from mha_viz.corpus.store.study_file import FILE
from mha_viz.errors import StudyError


def file_of_study(folder: str | Path) -> Path:
    """Return where the file of a study in a folder is; one of an earlier version is converted.

    Raises:
        StudyError: an address, or a damaged study of an earlier version.
        WriteError: one of an earlier version, in a folder that cannot be written.
    """
    if is_address(folder):
        raise StudyError(
            f"{folder} is an address: copy {FILE} into a folder first (`aws s3 cp`, `gcloud "
            "storage cp` or the like), and open that."
        )
    folder = Path(folder)
    if folder.name == FILE:
        folder = folder.parent
    convert_older(folder)
    return folder / FILE


@contextmanager
def refusing_damage(folder: str | Path) -> Iterator[None]:
    """Raise StudyError for whatever a changed manifest leads to."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        changed = "what it says of itself was changed. Restore it, or make it anew."
        raise StudyError(f"The study {folder} is damaged: {changed}") from error
