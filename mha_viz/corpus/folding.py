"""Studies without rows by text: every few shards are added to the totals and deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

from mha_viz.corpus.storage import (
    check_part,
    n_in_totals,
    read_part,
    shard_folder,
    shard_numbers,
    totals_folder,
    write_part,
    writing,
)
from mha_viz.corpus.totals import Totals

SHARDS_AT_ONCE = 16  # 4,096 texts: the totals of a large model take seconds to write


def totals_so_far(folder: Path, n_layers: int, n_heads: int) -> Totals:
    """Return what earlier runs have added up: nothing where rows are kept, or at the beginning.

    Args:
        folder: of the study.
        n_layers: of the model.
        n_heads: in each layer.

    Raises:
        StudyError: the totals are damaged.
    """
    place = totals_folder(folder, n_in_totals(folder))
    about = read_part(folder, place)
    if about is None:
        return Totals(n_layers, n_heads)
    check_part(folder, place)
    return Totals.read(place, about, n_layers, n_heads)


def fold(folder: Path, totals: Totals, end: int | None = None) -> None:
    """Add shards to the totals, write these, and delete the shards.

    The totals get their name before any shard is deleted: if the process stops in between, nothing
    is lost and the next call deletes the rest. The folder of shards is listed once, so that the
    work does not grow with the shards that are gone.

    Args:
        folder: of the study.
        totals: of the shards before them.
        end: the number of the first shard that stays; None: all that are there go.

    Raises:
        StudyError: a shard is damaged.
        WriteError: a full disk.
    """
    before = totals.n_shards
    totals.add_shards(folder, end)
    place = totals_folder(folder, totals.n_shards)
    if totals.n_shards > before:
        tables, about = totals.written()
        write_part(folder, place, tables, about)
    with writing(folder):
        for older in place.parent.glob("*"):
            if older != place:
                shutil.rmtree(older)
        for number in shard_numbers(folder):
            if number < totals.n_shards:
                shutil.rmtree(shard_folder(folder, number))
