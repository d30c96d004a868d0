"""How large a study is by its own account, and so how large its tables can be.

A billion equal rows take a few kilobytes on a disk: a folder from a stranger is checked before a
table is read. How many rows there are stands at the end of each file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mha_viz.corpus.cuts import study_notes
from mha_viz.corpus.source import SHARD_TEXTS

_MOST_HEADS = 100_000
_ROWS_OF_A_HEAD = 10_000  # of tables that are read whole: ours have some hundred, as a rule
_MOST_ROWS = 10_000_000  # of such a table
_MEASURES = 10  # of pairs of heads
_SUMMED_UP = (
    *("heads", "untrained_heads", "chance_layers", "labels", "profile", "parts_of_speech"),
    *("relations", "untrained_relations", "relation_offsets", "trees", "untrained_trees"),
    *("coreference", "untrained_coreference"),
)
_OF_TOKENS = ("edges", "edges_by_key", "heaviest_by_parts", "heaviest_by_relation", "arcs", "words")


class Sizes(NamedTuple):
    """What a study says of itself.

    Args:
        n_layers, n_heads: of its model.
        n_ctx: how many tokens the model takes.
        n_texts, n_tokens: of the source, as far as they could be read.
    """

    n_layers: int
    n_heads: int
    n_ctx: int
    n_texts: int
    n_tokens: int

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Sizes:
        """What study.json says.

        Args:
            manifest: its content.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: no study says this.
        """
        counts, model = manifest["counts"], manifest["model"]
        found = cls(
            *(int(model[name]) for name in ("n_layers", "n_heads", "n_ctx")),
            *(int(counts[name]) for name in ("n_texts", "n_tokens")),
        )
        if not (
            min(found) >= 1
            and found.n_layers * found.n_heads <= _MOST_HEADS
            and found.n_texts <= SHARD_TEXTS * counts["n_shards"]
            and found.n_tokens <= found.n_texts * found.n_ctx
        ):
            raise ValueError(f"no study has these sizes: {found}")
        for told in ("n_truncated", "n_left_out", "n_skipped"):
            int(counts[told])
        int(counts.get("n_duplicates", 0))  # earlier versions counted none
        model["name"].encode()
        study_notes(manifest)
        return found

    @property
    def of_summaries(self) -> dict[str, int]:
        """The most rows that the tables can have which are read whole, by name."""
        n_all = self.n_layers * self.n_heads
        # a treebank may name as many relations as it has words
        most = min((_ROWS_OF_A_HEAD + 8 * self.n_tokens) * (n_all + 10), _MOST_ROWS)
        return dict.fromkeys(_SUMMED_UP, most) | {"pairs": _MEASURES * n_all**2}

    @property
    def of_texts(self) -> dict[str, int]:
        """The same of the tables of single texts."""
        n_all = self.n_layers * self.n_heads
        most = dict.fromkeys(_OF_TOKENS, self.n_tokens * self.n_ctx * n_all)
        return most | {"sentences": self.n_texts, "texts": self.n_texts * n_all}
