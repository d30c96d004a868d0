"""Datasets of Hugging Face: in memory, in a folder, or on the Hub (extra `datasets`)."""

from __future__ import annotations

import json
import os
import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from mha_viz.corpus.sources.readers import is_text
from mha_viz.corpus.sources.reading import chosen_column
from mha_viz.errors import ArgumentError, SourceError, translating
from mha_viz.extras import require
from mha_viz.text.cleaning import visible

HUB = "hf:"  # before a name on the Hub
_SPELLING = re.compile(r"hf:(\w[\w.-]*(?:/\w[\w.-]*)?)(?:/(\w[\w.-]*))?(?::(.+))?")
_SAVED = ("state.json", "dataset_dict.json")  # by which `save_to_disk` marks a folder
_ROWS = 256  # taken at a time


def find_dataset(source: object) -> tuple[str, Any] | None:
    """Return the name of a dataset and the dataset itself; None for a source of another kind.

    Raises SourceError: no such dataset; several splits.
    """
    name = "dataset"
    if isinstance(source, str) and source.startswith(HUB):
        name, dataset = visible(source, 200), _from_hub(source)
    elif isinstance(source, (str, os.PathLike)) and _is_saved(Path(source)):
        name = visible(Path(source).name, 80)
        with _reading(name):
            dataset = datasets_library().load_from_disk(str(source))
    elif any(kind.__module__.partition(".")[0] == "datasets" for kind in type(source).__mro__):
        dataset = source
    else:
        return None
    if isinstance(dataset, dict):  # of splits
        if len(dataset) > 1:
            raise SourceError(
                f"{name} has the splits {', '.join(map(visible, dataset))}: choose one, as "
                f"hf:NAME:{visible(next(iter(dataset)))}, as the folder of that name, or by "
                "indexing the object with it."
            )
        dataset = next(iter(dataset.values()))
    return name, dataset


def write_rows(
    dataset: Any, name: str, column: str | None, group: str | None, copy: IO[bytes]
) -> None:
    """Write the texts of a dataset, and their groups, as JSON lines; a few rows at a time.

    Raises SourceError: no such column, none that holds text, or rows that cannot be read.
    """
    tables = _tables(dataset, name)
    first = next(tables, None)
    if first is None:
        raise SourceError(f"There is no text to study in {name}: it has no rows.")
    names = first.column_names
    texts = [field.name for field in first.schema if is_text(field.type)]
    column = chosen_column(name, column, names, texts)
    columns = {column} if group is None else {column, chosen_column(name, group, names, names)}
    for table in chain([first], tables):
        for row in table.select(sorted(columns)).to_pylist():
            row[column] = row[column] or ""  # so that no text reads as one that is empty
            copy.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")


def _tables(dataset: Any, name: str) -> Iterator[pa.Table]:
    with _reading(name):
        yield from dataset.with_format("arrow").iter(batch_size=_ROWS)


def _from_hub(spelled: str) -> Any:
    """Load a dataset whose files are data; the Hub's scripts are run by no version since 4."""
    match = _SPELLING.fullmatch(spelled)
    if match is None:
        raise ArgumentError(
            f"Expected a dataset as hf:OWNER/NAME, hf:OWNER/NAME:SPLIT or "
            f"hf:OWNER/NAME/CONFIG:SPLIT, got “{visible(spelled, 200)}”."
        )
    name, config, split = match.groups()
    library = datasets_library()
    if name in _readers() or name.startswith("buckets/"):
        raise ArgumentError(
            f"Expected a dataset as hf:OWNER/NAME, got “{visible(spelled, 200)}”, by which the "
            "library `datasets` calls a kind of file: it would read the files of the working "
            "directory. Give a file or a folder by its own name."
        )
    with _reading(visible(spelled, 200)):
        # the full address, for a folder of that name on this machine would be taken first
        return library.load_dataset(f"hf://datasets/{name}", config, split=split)


def _readers() -> set[str]:
    """Return the names by which the library takes files of one kind, wherever they lie."""
    from datasets import packaged_modules

    return {module.name for module in pkgutil.iter_modules(packaged_modules.__path__)}


def _is_saved(folder: Path) -> bool:
    try:
        return any((folder / name).is_file() for name in _SAVED)
    except (OSError, ValueError):  # too long a name, or one with NUL in it
        return False


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn what the library raises into an error that names the dataset."""

    def failed(error: BaseException) -> SourceError:
        reason = visible(str(error).strip().partition("\n")[0] or type(error).__name__, 300)
        return SourceError(f"The dataset {name} cannot be read: {reason.rstrip('.')}.")

    with translating(failed):
        yield


def datasets_library() -> Any:
    """Import `datasets`; MissingPackageError without the extra."""
    require("datasets", "A dataset of Hugging Face", "Files and lists of texts do without.")
    import datasets

    return datasets
