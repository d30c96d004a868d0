"""A search of edges finds what a filter of all edges by words and trees finds, in that order."""

import random
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.treebank.trees import sample_lines
from tests.corpus.small_studies import study_in_shards
from tests.making.trees import sample

# What is searched for; None more often, as most conditions at once are met by nothing.
ALONG = [*[(None, None)] * 3, ("nsubj", None), ("obj", "to_head"), ("det", "to_dependent")]
PARTS = [None, None, "verb", "NOUN", "DET"]
WORDS = [*[None] * 7, "THE", ",", "c*"]
PLACES = [*[(None, None)] * 3, (1, None), (None, 2), (3, 1)]
ORDER = ["text_id", "layer", "head", "query", "key"]


@pytest.fixture(scope="module")
def study(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    """Make a study of a few trees in several shards, and of texts that have none."""
    folder = tmp_path_factory.mktemp("edges")
    blocks = "\n".join(sample_lines()).strip().split("\n\n")[::12]
    (folder / "source").mkdir()
    (folder / "source/a.txt").write_text("A plain text has no tree.\nNor does this one.\n" * 3)
    (folder / "source/b.conllu").write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    return study_in_shards(6, bert, folder / "source", folder / "study")


class Reference:
    """All edges of a study in memory, with the trees of their texts."""

    def __init__(self, study: mv.Study) -> None:
        self.edges = study.sql("FROM edges")
        self.parts: dict[tuple[int, int], set[str]] = defaultdict(set)
        self.arcs: dict[tuple[int, int, int], set[tuple[str, str]]] = defaultdict(set)
        trees = {tree.text: tree.words for tree in sample()}
        for row in study.sql("FROM sentences").itertuples():
            for token, (start, end) in enumerate(zip(row.starts, row.ends, strict=True)):
                for word in trees.get(row.text, ()) if not row.is_special[token] else ():
                    if word.start < end and start < word.end:
                        self.parts[row.text_id, token].add(word.upos)
        for arc in study.sql("FROM arcs").itertuples():
            ends = arc.dependent_token, arc.head_token
            self.arcs[arc.text_id, *ends].add((arc.relation, "to_head"))
            self.arcs[arc.text_id, *ends[::-1]].add((arc.relation, "to_dependent"))
        tokens = study.sql("SELECT text_id, tokens FROM sentences").set_index("text_id")["tokens"]
        self.words = {text: [word.lower() for word in own] for text, own in tokens.items()}

    def search(self, **terms: Any) -> list[tuple[Any, ...]]:
        found = []
        for edge in self.edges.sort_values(["weight", *ORDER], ascending=[False, *[True] * 5])[
            [*ORDER, "query_word", "key_word", "weight"]
        ].itertuples(index=False):
            arcs = sorted(
                (relation, way)
                for relation, way in self.arcs[edge.text_id, edge.query, edge.key]
                if relation.split(":")[0] == terms["relation"] and terms["direction"] in (None, way)
            )
            if self._fits(edge, terms) and (arcs or terms["relation"] is None):
                found += [(*edge[:5], *arc) for arc in arcs or [()]]
        return found[: terms["limit"]]

    def _fits(self, edge: Any, terms: dict[str, Any]) -> bool:
        sides = (("query", edge.query), ("key", edge.key))
        if any(terms[of] not in (None, getattr(edge, of)) for of in ("layer", "head")):
            return False
        if not all(matches(getattr(edge, f"{side}_word"), terms[side]) for side, _ in sides):
            return False
        for side, token in sides:
            part = terms[f"{side}_upos"]
            if part is not None and part.upper() not in self.parts[edge.text_id, token]:
                return False
        if terms["previous"]:
            between = self.words[edge.text_id][edge.key + 1 : edge.query]
            if edge.key >= edge.query or any(matches(word, terms["key"]) for word in between):
                return False
        return bool(edge.weight >= terms["min_weight"])


def matches(word: str, pattern: str | None) -> bool:
    return fnmatchcase(word, (pattern or "*").lower())


def test_search_finds_what_a_filter_of_all_edges_finds(study: mv.Study) -> None:
    reference, dice, n_found = Reference(study), random.Random(42), 0
    for _ in range(67):
        relation, direction = dice.choice(ALONG)
        layer, head = dice.choice(PLACES)
        terms = {
            "relation": relation,
            "direction": direction,
            "layer": layer,
            "head": head,
            "query_upos": dice.choice(PARTS),
            "key_upos": dice.choice(PARTS),
            "query": dice.choice(WORDS),
            "key": dice.choice(WORDS),
            "previous": dice.choice([False, False, True]),
            "min_weight": dice.choice([0, 0.3, 0.7]),
            "limit": dice.choice([1, 9, 100, 10**6]),
        }
        found = study.search(**terms)
        columns = [*ORDER, *(["relation", "direction"] if relation else [])]
        rows = list(found[columns].itertuples(index=False, name=None))
        assert rows == reference.search(**terms), terms
        n_found += not found.empty
    assert n_found > 25


def test_edges_have_the_tokens_of_their_texts(study: mv.Study) -> None:
    tokens = study.sql("SELECT text_id, tokens FROM sentences").set_index("text_id")["tokens"]
    edges = study.sql("FROM edges")
    for side in ("query", "key"):
        expected = [
            tokens[text][at] for text, at in zip(edges["text_id"], edges[side], strict=True)
        ]
        assert edges[f"{side}_token"].tolist() == expected
        lower = pd.Series(expected).str.lower().tolist()
        assert edges[f"{side}_word"].tolist() == lower
