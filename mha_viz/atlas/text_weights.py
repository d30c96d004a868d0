"""The weights of all heads on texts, each as a file that a page reads as a script."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.blocks import INDEX
from mha_viz.engine.model import AttentionModel
from mha_viz.web.payload import grid_payload

_BATCH_BYTES = 128 * 2**20  # of the weights of texts that run together


def text_weights(
    study: Study, model: AttentionModel, text_ids: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    """Run texts of a study through its model, once for all heads; yield each with its file.

    The numbers beside the weights are the study's own of that text.
    """
    if not text_ids:
        return
    ids = ", ".join(map(str, text_ids))
    texts = study.sql(
        f"SELECT text_id, text, len(tokens) AS n FROM sentences WHERE text_id IN ({ids})"
    ).set_index("text_id")
    scores = study.sql(f"SELECT * FROM texts WHERE text_id IN ({ids})")
    scores = scores.sort_values(["text_id", "layer", "head"], kind="stable").set_index("text_id")
    titles = {name: METRICS[name].title for name in scores.columns if name not in INDEX}
    shape = study.n_layers, study.n_heads
    for batch in _batches(
        text_ids,
        dict(zip(texts.index.tolist(), texts["n"].tolist(), strict=True)),
        4 * shape[0] * shape[1],
    ):
        batch_texts = texts["text"].loc[batch].tolist()
        if len(model.parts) > 1:
            records = [model.trace(text, keep=("pattern",)) for text in batch_texts]
        else:
            records = model.trace_batch(batch_texts, keep=("pattern",))
        for text_id, record in zip(batch, records, strict=True):
            rows = scores.loc[text_id]
            facts = {title: rows[name].to_numpy(float) for name, title in titles.items()}
            facts = {title: of for title, of in facts.items() if not np.isnan(of).all()}
            payload = grid_payload(
                record, {title: of.reshape(shape) for title, of in facts.items()}
            )
            yield text_id, _script(text_id, payload)


def _batches(
    text_ids: Sequence[int], n_tokens: Mapping[int, int], bytes_of_weight: int
) -> Iterator[list[int]]:
    """Yield texts that run together, in their order."""
    batch: list[int] = []
    for text_id in text_ids:
        longest = max(n_tokens[number] for number in (*batch, text_id))
        if batch and (len(batch) + 1) * longest**2 * bytes_of_weight > _BATCH_BYTES:
            yield batch
            batch = []
        batch.append(text_id)
    yield batch


def _script(text_id: int, payload: bytes) -> bytes:
    """Return a script that hands over a payload, which zlib makes smaller."""
    code = base64.b64encode(zlib.compress(payload, 9)).decode()
    return f"mhaAtlas.take({json.dumps(str(text_id))}, {json.dumps(code)});\n".encode()
