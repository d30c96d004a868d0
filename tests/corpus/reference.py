"""Reference of a study: each text by itself, through the report of its record."""

import numpy as np
import torch

import mha_viz as mv
from mha_viz.core.measure import measure, text_baselines
from mha_viz.corpus.measure.batches import Batch
from mha_viz.corpus.measure.measuring import WAYS, BatchOptions
from mha_viz.corpus.measure.scores import SCORES
from mha_viz.corpus.sources.source import Item
from mha_viz.text.encoding import encode_texts
from tests.engine.test_families import PAIRED, SINGLE, build

TEXTS = (
    "the cat sat on the mat because the dog ran",
    "cat",
    "the cat",
    "mat mat mat mat mat mat mat",
    "the dog did not cross the street because it was too tired and the cat ran",
    "[SEP] the cat [SEP] sat",
    "it ran unknown words too",
)


def items(texts=TEXTS) -> list[Item]:
    return [Item(number, text, f"here:{number + 1}") for number, text in enumerate(texts)]


def small(name: str) -> mv.AttentionModel:
    """Build it in float64, so that a text runs alike alone and in a batch; records are float32."""
    model = build({**SINGLE, **PAIRED}[name], name)
    if name != "gpt_oss":  # whose experts torch multiplies in float32 at most
        model.network.double()
    return model


def traced(model: mv.AttentionModel, text: str) -> mv.AttentionRecord:
    keep = ("pattern", "z", "value") if model.backend == "mha_viz" else ("pattern",)
    return model.trace(text, keep=keep)


def one_batch(model: mv.AttentionModel, texts=TEXTS) -> Batch:
    """All texts in one batch, whatever their lengths: much of it is padding."""
    encoded = [encode_texts(model.reader, text)[0] for text in texts]
    order = sorted(range(len(texts)), key=lambda at: len(encoded[at].input_ids))
    whole = items(texts)
    return Batch(tuple(whole[at] for at in order), tuple(encoded[at] for at in order))


def scores_alone(record: mv.AttentionRecord, names=SCORES) -> np.ndarray:
    """(layer, head, score)."""
    found = measure(record)
    nothing = torch.full_like(found["entropy"], torch.nan)
    return torch.stack([found.get(key, nothing) for key in names], -1).numpy()


def chance_alone(record: mv.AttentionRecord, options: BatchOptions | None = None) -> np.ndarray:
    """(layer, way, score)."""
    options, found = options or BatchOptions(), text_baselines(record)
    table = np.full((record.n_layers, len(WAYS), len(options.baselines)), np.nan)
    for at, key in enumerate(options.baselines):
        for layer in range(record.n_layers):
            for row, way in enumerate(WAYS):
                value = getattr(found[key].at(layer), way) if key in found else None
                table[layer, row, at] = np.nan if value is None else value
    return table
