"""A small study written from shards of the plain reference, once for all tests that read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.summary import summarise
from mha_viz.corpus.statistics.totals import Totals, write_shard
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.corpus.store.storage import begin_manifest, claim_folder, write_manifest
from mha_viz.engine.model import AttentionModel
from tests.corpus.plain_shard import measure_shard, plain_items

TEXTS = [
    "The cat sat on the mat because the cat was tired.",
    "She said that he had gone home.",
    "the  cat sat on the mat because the cat was tired.",
    "Why did the dog bark, and why did the dog stop?",
    "Rain fell all night because the wind had turned.",
    "A hundred_percent 100% sure thing.",
    "He saw her and she saw him.",
]


def plain_study(
    model: AttentionModel, folder: Path, texts: Sequence[str] = TEXTS, per_shard: int = 3
) -> Study:
    claim_folder(folder)
    source: dict[str, Any] = {"texts": list(texts)}
    about = {"model": model_identity(model), "source": source, "settings": {}}
    manifest = begin_manifest(folder, about)
    items, random = plain_items(texts), untrained_copy(model)
    shards = [items[i : i + per_shard] for i in range(0, len(items), per_shard)]
    measured = [measure_shard(model, part, untrained=random) for part in shards]
    for number, shard in enumerate(measured):
        write_shard(folder, number, shard)  # type: ignore[arg-type]
    totals = Totals(model.n_layers, model.n_heads)
    totals.add_shards(folder)
    files = summarise(folder, totals)
    counts = {"n_shards": len(shards), "n_texts": len(texts), "n_units": len(texts)}
    counts |= {"n_skipped": 0, "n_truncated": 0, "n_left_out": 0}
    counts["n_tokens"] = counts["n_padded"] = sum(shard.counts["n_tokens"] for shard in measured)
    done = {"finished": True, "unit": "text", "counts": counts, "skipped": [], "files": files}
    write_manifest(folder, {**manifest, **done})
    return Study.load(folder)
