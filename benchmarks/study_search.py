"""The time of a search in the edges of very many texts, which are made up in their order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import mha_viz as mv
from benchmarks.measure import Result, interleaved, spread
from mha_viz.corpus.sources.source import SHARD_TEXTS
from mha_viz.corpus.store.edges_index import BY_PARTS, BY_RELATION, KEPT, ROWS, sort_edges
from mha_viz.corpus.store.storage import SHARDS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD

LAYERS, HEADS, TOKENS = 4, 8, 12  # of tiny-bert, and of a short sentence
EDGES_OF_A_QUERY = 1.1
WORDS = [f"word{rank}" for rank in range(4_000)]  # the frequent ones first, as in prose
RELATIONS, PARTS = ("obj", "nsubj", "det", "case", "punct", "root"), ("VERB", "NOUN", "DET")
AIM = 0.5  # seconds
_PART = 2_000_000  # edges of a part
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
        n_edges = write(Path(name), n_texts)
        model = {"name": "made up", "n_layers": LAYERS, "n_heads": HEADS, "n_ctx": TOKENS}
        counts = {"n_texts": n_texts, "n_tokens": n_texts * TOKENS}
        counts |= {"n_shards": n_texts // SHARD_TEXTS + 1}
        counts |= dict.fromkeys(("n_truncated", "n_left_out", "n_skipped"), 0)
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
    """The files of a study that a search reads; how many edges there are."""
    n_edges = int(n_texts * TOKENS * LAYERS * HEADS * EDGES_OF_A_QUERY)
    shares, dice = 1 / np.arange(1, len(WORDS) + 1), np.random.default_rng(0)
    for number, n in enumerate(np.diff([*range(0, n_edges, _PART), n_edges]).tolist()):
        words = dice.choice(len(WORDS), (2, n), p=shares / shares.sum())
        part = folder / SHARDS / f"{number:05}" / "edges.parquet"
        part.parent.mkdir(parents=True)
        pq.write_table(pa.table(_edges_between(words, n_texts, dice)), part, compression="zstd")
    sort_edges(folder)
    shutil.rmtree(folder / SHARDS)
    for name, table in _texts(n_texts, np.random.default_rng(1)).items():
        pq.write_table(table, folder / f"{name}.parquet")
    for name in (BY_RELATION, BY_PARTS):
        table = _heaviest(name, n_texts, np.random.default_rng(2))
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", row_group_size=ROWS)
    return n_edges


def _texts(n_texts: int, dice: Any) -> dict[str, pa.Table]:
    """The texts, a token a word, each word of some part of speech and below another one."""
    numbers, n = np.arange(n_texts), n_texts * TOKENS
    texts = pa.array([f"A text about {number}." for number in numbers])
    tokens = pa.array(WORDS).take(pa.array(dice.integers(0, len(WORDS), n)))
    of_text, word = np.repeat(numbers, TOKENS), np.tile(np.arange(TOKENS, dtype=np.int32), n_texts)
    ends = np.arange(n + 1, dtype=np.int32)
    return {
        "sentences": pa.table(
            {
                "text_id": numbers,
                "place": texts,
                "text": texts,
                "tokens": pa.ListArray.from_arrays(
                    np.arange(0, n + 1, TOKENS, dtype=np.int32), tokens
                ),
            }
        ),
        "words": pa.table(
            {
                "text_id": of_text,
                "word": word,
                "upos": pa.array(PARTS).take(pa.array(dice.integers(0, len(PARTS), n))),
                "tokens": pa.ListArray.from_arrays(ends, word),
            }
        ),
        "arcs": pa.table(
            {
                "text_id": of_text,
                "dependent_token": word,
                "head_token": dice.integers(0, TOKENS, n).astype(np.int32),
                "relation": pa.array(RELATIONS).take(pa.array(dice.integers(0, len(RELATIONS), n))),
            }
        ),
    }


def _heaviest(name: str, n_texts: int, dice: Any) -> pa.Table:
    """The heaviest edges of each relation or of each two parts of speech, in their order."""
    along = name == BY_RELATION
    group = ("relation", "direction") if along else ("query_upos", "key_upos")
    groups = list(product(RELATIONS, (TO_DEPENDENT, TO_HEAD)) if along else product(PARTS, PARTS))
    n = KEPT * len(groups)
    edges = _edges_between(dice.integers(0, len(WORDS), (2, n)), n_texts, dice)
    edges["weight"] = np.tile(np.linspace(1, 0.99, KEPT, dtype=np.float32), len(groups))
    for side in ("query", "key"):
        edges[f"{side}_upos"] = pa.array(PARTS).take(pa.array(dice.integers(0, len(PARTS), n)))
    for column, values in zip(group, zip(*groups, strict=True), strict=True):
        edges[column] = np.repeat(values, KEPT)
    return pa.table({**edges, "complete_above": np.full(n, 0.99, np.float32)})


def _edges_between(words: Any, n_texts: int, dice: Any) -> dict[str, Any]:
    """Edges between such words, anywhere: the columns that all tables of edges have."""
    n = len(words[0])
    query, key = (
        pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32)), pa.array(WORDS))
        for at in words
    )
    return {
        "text_id": dice.integers(0, n_texts, n),
        "layer": dice.integers(0, LAYERS, n).astype(np.int16),
        "head": dice.integers(0, HEADS, n).astype(np.int16),
        "query": dice.integers(0, TOKENS, n).astype(np.int32),
        "key": dice.integers(0, TOKENS, n).astype(np.int32),
        "query_token": query,
        "key_token": key,
        "weight": dice.random(n).astype(np.float32),
        "strongest": dice.random(n) < 1 / EDGES_OF_A_QUERY,
    }
