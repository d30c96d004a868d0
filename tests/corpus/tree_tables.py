"""The tables of sentences whose patterns are at hand."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank.batch_trees import BatchTrees
from mha_viz.corpus.treebank.gold import TreeCounts
from mha_viz.corpus.treebank.trees import Sentence


def tree_tables(
    texts: Iterable[tuple[int, Float[Tensor, "layer head _ _"], Sequence[Token], Sentence]],
    *,
    causal: bool,
) -> dict[str, pa.Table]:
    """Make the tables of some sentences whose patterns are at hand.

    Each text comes with its number, pattern, tokens and tree.
    """
    counts = TreeCounts(causal=causal)
    for text_id, pattern, tokens, sentence in texts:
        trees = BatchTrees(counts, [(text_id, tokens, sentence)])
        for layer, one in enumerate(pattern):
            trees.add(layer, one[None])
        trees.finish()
    return counts.tables()
