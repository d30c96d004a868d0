"""Studies that keep no rows by text: every few shards are added to the totals, and go."""

from __future__ import annotations

import shutil
from pathlib import Path

from mha_viz.corpus.storage import (
    n_in_totals,
    read_part,
    shard_folder,
    totals_folder,
    write_part,
    writing,
)
from mha_viz.corpus.totals import Totals

SHARDS_AT_ONCE = 16  # 4,096 texts: the totals of a large model take seconds to write


def totals_so_far(folder: Path, n_layers: int, n_heads: int) -> Totals:
    """What was added up by earlier runs; nothing, where rows are kept or nothing was.

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
    return Totals.read(place, about, n_layers, n_heads)


def fold(folder: Path, totals: Totals, end: int | None = None) -> None:
    """Add shards to the totals, write these, and delete the shards.

    The totals have their name before anything is deleted: stopped in between, nothing is lost and
    the next call deletes the rest.

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
        for number in range(totals.n_shards):
            if (shard := shard_folder(folder, number)).exists():
                shutil.rmtree(shard)
