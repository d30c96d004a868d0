"""Studies of earlier versions, folders of Parquet files, converted into one file."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.store.lock import locked
from mha_viz.corpus.store.manifest import Sizes
from mha_viz.corpus.store.schema import TABLES
from mha_viz.corpus.store.study_file import (
    FILE,
    OLDER_MANIFEST,
    UNFINISHED,
    StudyFile,
    open_study,
)
from mha_viz.errors import StudyError, translating

_FORMATS = (2, 3)  # that had hashes; 4 is one file
_HASHES, _PART = "sha256", "shard.json"
_MAX_JSON_BYTES = 8_000_000  # real ones have some thousand
_ROWS = 2**17  # that are converted at once
_ABOUT = ("model", "source", "settings", "versions", "source_name")


def convert_older(folder: Path) -> None:
    """Write the file of a finished study of an earlier version, unless it is there.

    Its files are compared with their hashes, and stay. Raises StudyError: they were changed, or the
    study is unfinished.
    """
    if (folder / FILE).exists() or not (folder / OLDER_MANIFEST).exists():
        return
    with translating(lambda error: _damaged(folder, OLDER_MANIFEST)):
        manifest = _read_json(folder, folder / OLDER_MANIFEST)
        is_ours = manifest["format"] in _FORMATS
        finished = bool(manifest["finished"])
    if not is_ours or not finished:
        raise StudyError(
            f"The study {folder} is of an earlier version of mha-viz and "
            f"{'too old to be opened' if finished else 'unfinished'}: make it anew in another "
            "folder."
        )
    with locked(folder):
        for left_over in folder.glob(f"{UNFINISHED}*"):
            left_over.unlink()
        with translating(lambda error: _damaged(folder, "a table")):
            files = _files(folder, manifest)
            _check_rows(folder, files, Sizes.of(manifest))
        with open_study(folder, {name: manifest[name] for name in _ABOUT}) as file:
            with translating(lambda error: _damaged(folder, "a table")):
                _convert(files, file)
            names = ("unit", "counts", "skipped", "quantiles")
            file.finish({name: manifest[name] for name in names if name in manifest})


def _damaged(folder: Path, name: str) -> StudyError:
    return StudyError(
        f"The study {folder} is damaged: {name} was changed or cannot be read. Restore it, or make "
        "it anew."
    )


def _read_json(folder: Path, path: Path) -> dict[str, Any]:
    """Read a JSON file with the hashes of the files beside it, and compare it with its own."""
    if not path.is_file() or path.stat().st_size > _MAX_JSON_BYTES:  # opening a pipe would wait
        raise _damaged(folder, path.name)
    content = dict(json.loads(path.read_text("utf-8")))
    hashes = dict(content.pop(_HASHES))
    digest = hashes.pop(path.name)
    canonical = json.dumps({**content, _HASHES: hashes}, sort_keys=True)
    if hashlib.sha256(canonical.encode()).hexdigest() != digest:
        raise _damaged(folder, path.name)
    return {**content, _HASHES: hashes}


def _files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, list[Path]]:
    """List the files of each table, in their order, after a comparison with their hashes."""
    by_table: dict[str, list[Path]] = {}
    rows = "parts" if (folder / "parts").exists() else "shards"
    folders = [(folder, dict(manifest))]
    for summary in sorted(
        (folder / rows).glob(f"*[0-9]/{_PART}"), key=lambda at: int(at.parent.name)
    ):
        folders.append((summary.parent, _read_json(folder, summary)))
    for parent, about in folders:
        for name in about["files"]:
            path = parent / name
            check_cancelled()
            if path.parent != parent or not path.is_file():
                raise _damaged(folder, name)
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != about[_HASHES][name]:
                    raise _damaged(folder, path.relative_to(folder).as_posix())
            if path.stem in {*TABLES, "edges"}:
                by_table.setdefault(path.stem, []).append(path)
    return by_table


def _check_rows(folder: Path, files: Mapping[str, list[Path]], sizes: Sizes) -> None:
    """Compare the numbers of rows with what such a study can have: few bytes may hold billions."""
    most = {**sizes.of_summaries, **sizes.of_texts}
    for name, paths in files.items():
        n_rows = sum(pq.read_metadata(path).num_rows for path in paths)
        limit = most.get("edge_rows" if name == "edges" else name, max(most.values()))
        if n_rows > limit:
            raise StudyError(
                f"The study {folder} is damaged: its table {name} has {n_rows:,} rows, and can "
                f"have {limit:,} at the most. Restore it, or make it anew."
            )


def _convert(files: Mapping[str, list[Path]], file: StudyFile) -> None:
    trees = {
        name: pq.ParquetDataset(files[name]).read() for name in ("words", "arcs") if name in files
    }
    for name, paths in files.items():
        for path in paths:
            with pq.ParquetFile(path) as parquet:
                for rows in parquet.iter_batches(_ROWS):
                    check_cancelled()
                    table = pa.Table.from_batches([rows])
                    with file.transaction():
                        if name == "edges":
                            file.insert_edges({**trees, name: table})
                        else:
                            file.insert(name, table)
        file.checkpoint()
