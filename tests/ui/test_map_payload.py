"""The map of queries and keys as the browser gets it: its name and its facts."""

import numpy as np

import mha_viz as mv
from mha_viz.ui.widgets.components.query_key_map import payload_of
from mha_viz.web.payload import unpack


def test_payload_names_model_and_first_text_and_has_a_fact_for_each_head() -> None:
    texts = ["The cat sat.", "A dog ran home."]
    heads = mv.query_key_map(mv.load("tiny-gpt2"), texts)
    header, _ = unpack(payload_of(heads))
    assert heads.model in header["title"] and texts[0] in header["title"]
    assert texts[1] not in header["title"]
    n_heads = int(np.prod(heads.points.shape[:2]))
    assert header["facts"] and all(len(values) == n_heads for values in header["facts"].values())
    assert header["tokens"] == len(heads.tokens)
