"""The weights of all heads on a text, as a file that a page reads as a script."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.blocks import INDEX
from mha_viz.engine.model import AttentionModel
from mha_viz.web.payload import grid_payload


def text_weights(
    study: Study, model: AttentionModel, text_ids: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    """Run texts of a study through its model, once for all heads; yield each with its file.

    The numbers beside the weights are the study's own of that text.
    """
    if not text_ids:
        return
    ids = ", ".join(map(str, text_ids))
    texts = study.sql(f"SELECT text_id, text FROM sentences WHERE text_id IN ({ids})")
    scores = study.sql(f"SELECT * FROM texts WHERE text_id IN ({ids})")
    scores = scores.sort_values(["text_id", "layer", "head"], kind="stable").set_index("text_id")
    titles = {name: METRICS[name].title for name in scores.columns if name not in INDEX}
    shape = study.n_layers, study.n_heads
    by_id = dict(zip(texts["text_id"], texts["text"], strict=True))
    for text_id in text_ids:
        rows = scores.loc[text_id]
        facts = {title: rows[name].to_numpy(float).reshape(shape) for name, title in titles.items()}
        facts = {title: of for title, of in facts.items() if not np.isnan(of).all()}
        payload = grid_payload(model.trace(by_id[text_id], keep=("pattern",)), facts)
        code = base64.b64encode(zlib.compress(payload, 9)).decode()
        yield text_id, f"mhaAtlas.take({json.dumps(str(text_id))}, {json.dumps(code)});\n".encode()
