"""The time of a search in the edges of very many texts, which are made up."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mha_viz as mv
from benchmarks.measure import Result, interleaved, spread
from mha_viz.corpus.sources.source import SHARD_TEXTS
from mha_viz.corpus.store.database import trust
from mha_viz.corpus.store.names import ARC, BETWEEN_ARCS, TOKEN, UPOS
from mha_viz.corpus.store.study_file import FILE, open_study
from mha_viz.corpus.treebank.gold import SCHEMAS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD

LAYERS, HEADS, TOKENS = 4, 8, 12  # of tiny-bert, and of a short sentence
EDGES_OF_A_QUERY = 1.1
WORDS = [f"word{rank}" for rank in range(4_000)]  # the frequent ones first, as in prose
RELATIONS, PARTS = ("obj", "nsubj", "det", "case", "punct", "root"), ("VERB", "NOUN", "DET")
AIM = 0.5  # seconds
_NO_ARCS = SCHEMAS["arcs"].empty_table()
_PART = 2_000_000  # edges that are written at once
SEARCHES: Mapping[str, Mapping[str, Any]] = {
    "a word that is one in a thousand": {"query": "word110"},
    "the same word looked at": {"key": "word110"},
    "a word in one head, by weight": {"query": "word20", "layer": 2, "head": 3, "min_weight": 0.6},
    "the most frequent word": {"query": "word0"},
    "the previous one of a frequent word": {"key": "word3", "previous": True, "min_weight": 0.5},
    "verbs at their objects": {"relation": "obj", "query_upos": "VERB"},
    "from verbs to nouns": {"query_upos": "VERB", "key_upos": "NOUN"},
}


def measure(n_texts: int = 100_000, repeats: int = 5) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        model = {"name": "made up", "n_layers": LAYERS, "n_heads": HEADS, "n_ctx": TOKENS}
        counts = {"n_texts": n_texts, "n_tokens": n_texts * TOKENS}
        counts |= {"n_shards": n_texts // SHARD_TEXTS + 1}
        counts |= dict.fromkeys(("n_truncated", "n_left_out", "n_skipped"), 0)
        n_edges = write(Path(name), n_texts)
        study = mv.Study(Path(name), {"model": model, "counts": counts})
        ways = {what: lambda asked=asked: study.search(**asked) for what, asked in SEARCHES.items()}
        assert all(len(way()) for way in ways.values())
        seconds = interleaved(ways, repeats)
    return [
        Result(
            f"search of {n_texts:,} texts: {what}",
            spread(found, 1000, " ms"),
            f"{n_edges:,} edges",
            aim=f"under {AIM} s",
            met=sorted(found)[len(found) // 2] < AIM,
        )
        for what, found in seconds.items()
    ]


def write(folder: Path, n_texts: int) -> int:
    """The file of a study that a search reads; how many edges there are."""
    n_edges = int(n_texts * TOKENS * LAYERS * HEADS * EDGES_OF_A_QUERY)
    shares, dice = 1 / np.arange(1, len(WORDS) + 1), np.random.default_rng(0)
    arcs = [f"{name}{BETWEEN_ARCS}{way}" for name in RELATIONS for way in (TO_DEPENDENT, TO_HEAD)]
    names = {TOKEN: WORDS, UPOS: ["", *PARTS], ARC: ["", *arcs]}
    with open_study(folder, {part: {} for part in ("model", "source", "settings")}) as file:
        with file.transaction():
            file.insert("sentences", _texts(n_texts, np.random.default_rng(1)))
            file.insert("arcs", _NO_ARCS)  # by which a study is known to have trees
            for kind, own in names.items():
                numbers = np.arange(len(own), dtype=np.int32)
                rows = {"kind": pa.array([kind] * len(own)), "number": numbers, "name": own}
                file.insert("names", pa.table(rows))
        of_texts = np.linspace(0, n_texts, n_edges, endpoint=False).astype(np.int64)
        for begin in range(0, n_edges, _PART):
            ids = of_texts[begin : begin + _PART]
            words = dice.choice(len(WORDS), (2, len(ids)), p=shares / shares.sum())
            with file.transaction():
                file.insert("edge_rows", pa.table(_edges_between(words, ids, len(arcs), dice)))
            file.checkpoint()
        file.finish({})
    trust(folder / FILE)
    return n_edges


def _texts(n_texts: int, dice: Any) -> pa.Table:
    numbers, n = np.arange(n_texts), n_texts * TOKENS
    texts = pa.array([f"A text about {number}." for number in numbers])
    tokens = pa.array(WORDS).take(pa.array(dice.integers(0, len(WORDS), n)))
    ends = np.arange(0, n + 1, TOKENS, dtype=np.int32)
    listed = pa.ListArray.from_arrays(ends, tokens)
    return pa.table({"text_id": numbers, "place": texts, "text": texts, "tokens": listed})


def _edges_between(words: Any, ids: Any, n_arcs: int, dice: Any) -> dict[str, Any]:
    """Edges between such words, of a text after the other, by their query's word in each shard."""
    n = len(ids)
    order = np.lexsort([words[0], ids // SHARD_TEXTS])
    along = np.where(dice.random(n) < 1 / TOKENS, dice.integers(1, n_arcs + 1, n), 0)
    return {
        "text_id": ids[order],
        "layer": dice.integers(0, LAYERS, n).astype(np.int16),
        "head": dice.integers(0, HEADS, n).astype(np.int16),
        "query": dice.integers(0, TOKENS, n).astype(np.int32),
        "key": dice.integers(0, TOKENS, n).astype(np.int32),
        "query_token": words[0][order].astype(np.int32),
        "key_token": words[1][order].astype(np.int32),
        "weight": dice.random(n).astype(np.float32),
        "strongest": dice.random(n) < 1 / EDGES_OF_A_QUERY,
        "query_upos": dice.integers(0, len(PARTS) + 1, n).astype(np.int32),
        "key_upos": dice.integers(0, len(PARTS) + 1, n).astype(np.int32),
        "arc": along.astype(np.int32),
    }
