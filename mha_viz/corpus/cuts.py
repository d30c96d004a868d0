"""What a study's texts lost because a model takes only so much of one at once, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mha_viz.core.showing import count
from mha_viz.corpus.documents import MOST_TOKENS


def what_was_cut(manifest: Mapping[str, Any]) -> str:
    """How many texts were cut and how many documents parted, in sentences; "" where none was.

    Args:
        manifest: what a study's study.json says.
    """
    counts, model = manifest["counts"], manifest["model"]
    said = []
    if counts["n_truncated"]:
        said.append(
            f"Cut to the {model['n_ctx']:,} tokens that {model['name']} takes: "
            f"{counts['n_truncated']:,} of {counts['n_texts']:,} texts; about "
            f"{counts['n_left_out']:,} tokens were left out."
        )
    if counts.get("n_going_on"):
        most = min(model["n_ctx"], MOST_TOKENS)
        said.append(
            f"{counts['n_going_on']:,} of {counts['n_texts']:,} texts go on with a document that "
            f"is longer than {most:,} tokens: {count(counts['n_lost'], 'mention')} in them had "
            "antecedents in earlier texts alone, and were not asked for them."
        )
    return " ".join(said)
