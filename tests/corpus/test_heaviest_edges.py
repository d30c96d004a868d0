"""A search by grammar finds in the tables of the heaviest edges what it finds among all of them."""

import random
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.query import search
from mha_viz.corpus.run import run
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import edges_index
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.store.edges_index import BY_PARTS, BY_RELATION, keep_heaviest, sort_edges
from mha_viz.corpus.store.storage import write_manifest
from mha_viz.corpus.treebank.trees import sample_lines
from tests.corpus.small_studies import resealed

TABLES = (BY_RELATION, BY_PARTS)
# What is searched for; None more often, as most conditions at once are met by nothing.
ALONG = [*[(None, None)] * 3, ("nsubj", None), ("obj", "to_head"), ("det", "to_dependent")]
PARTS = [None, None, "VERB", "NOUN", "DET"]
WORDS = [*[None] * 7, "the"]
PLACES = [*[(None, None)] * 3, (1, None), (None, 2), (3, 1)]
PREVIOUS = [False, False, True]
LEAST = [0, 0.3, 0.7]
LIMITS = [1, 9, 100, 10**6]


@pytest.fixture(scope="module")
def study(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    """Make a study of a few trees in several shards: equal weights, tokens that spell two words."""
    folder = tmp_path_factory.mktemp("heaviest")
    blocks = "\n".join(sample_lines()).strip().split("\n\n")[::12]
    (folder / "source").mkdir()
    (folder / "source/a.txt").write_text("A plain text has no tree.\nNor does this one.\n" * 3)
    (folder / "source/b.conllu").write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", 6)
        patch.setattr(run, "remove_shards", lambda folder: None)
        made = mv.study(bert, folder / "source", folder / "study")
    shutil.rmtree(made.folder / "parts")  # as before they were written
    manifest = {name: of for name, of in made.manifest.items() if name != "parts"}
    write_manifest(made.folder, manifest)
    for path in (made.folder / "shards").glob("*/*.parquet"):
        if (columns := CHANGED.get(path.stem)) is not None:
            duckdb.sql(f"COPY ({columns.format(path=path)}) TO '{path}' (FORMAT parquet)")
    sort_edges(made.folder)
    return opened(made.folder)


CHANGED = {
    "edges": """SELECT * REPLACE (round(weight, 1)::FLOAT AS weight) FROM '{path}'
        WHERE weight > 0.1""",
    # every third word is spelled with the next one's tokens, too
    "words": """SELECT * REPLACE (CASE WHEN word % 3 > 0 THEN tokens ELSE list_concat(tokens,
        lead(tokens, 1, []) OVER (PARTITION BY text_id ORDER BY word)) END AS tokens)
        FROM '{path}'""",
    # and some have two relations to the same one
    "arcs": """FROM '{path}' UNION ALL SELECT * REPLACE ('nsubj:pass' AS relation) FROM '{path}'
        WHERE dependent_token % 4 = 0""",
}


def opened(folder: Path) -> mv.Study:
    """Open it as it lies there, changed on purpose."""
    return mv.Study.load(resealed(folder))


@pytest.fixture
def slow(study: mv.Study, tmp_path: Path) -> mv.Study:
    """The same without the tables, as an older version made it."""
    folder = Path(shutil.copytree(study.folder, tmp_path / "slow"))
    for name in TABLES:
        (folder / f"{name}.parquet").unlink()
    return opened(folder)


@pytest.mark.extended
@pytest.mark.parametrize("kept", [40, 4_000])
def test_it_finds_the_same_in_the_same_order(
    study: mv.Study, slow: mv.Study, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(edges_index, "KEPT", kept)
    keep_heaviest(study.folder)
    fast, answers = opened(study.folder), []

    def watched(database: Database, terms: search.EdgeQuery) -> pd.DataFrame | None:
        found = among_heaviest(database, terms)
        if BY_PARTS in database.tables:
            answers.append(found is not None)
        return found

    among_heaviest = search._among_heaviest
    monkeypatch.setattr(search, "_among_heaviest", watched)
    dice, n_found = random.Random(kept), 0
    for _ in range(80):
        relation, direction = dice.choice(ALONG)
        layer, head = dice.choice(PLACES)
        wanted = {
            "relation": relation,
            "direction": direction,
            "layer": layer,
            "head": head,
            "query_upos": dice.choice(PARTS),
            "key_upos": dice.choice(PARTS),
            "query": dice.choice(WORDS),
            "key": dice.choice(WORDS),
            "previous": dice.choice(PREVIOUS),
            "min_weight": dice.choice(LEAST),
            "limit": dice.choice(LIMITS),
        }
        found = fast.search(**wanted)
        pd.testing.assert_frame_equal(found, slow.search(**wanted), obj=str(wanted))
        n_found += not found.empty
    assert n_found > 25 and answers.count(True) > 5
    assert all(answers) == (kept == 4_000)  # of few kept ones, some searches need all edges
