"""Notes on a study in words: duplicates that were left out, and texts that were cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mha_viz.core.showing import count
from mha_viz.corpus.documents import MOST_TOKENS
from mha_viz.corpus.integrity import HASHES


def study_notes(manifest: Mapping[str, Any]) -> list[str]:
    """Return what a reader of a study's numbers should know, in sentences.

    Args:
        manifest: what a study's study.json says.

    >>> counts = {"n_truncated": 0, "n_duplicates": 228}
    >>> study_notes({"counts": counts, "model": {}, "sha256": {}})
    ['228 duplicate texts were left out: a text that occurs again counts once.']
    """
    notes = []
    if HASHES not in manifest:
        notes.append(
            "An earlier version of mha-viz made this study: its files have no hashes and cannot be "
            "verified, and copies of a text count as texts of their own."
        )
    if n := manifest["counts"].get("n_duplicates", 0):
        were = "was" if n == 1 else "were"
        notes.append(
            f"{count(n, 'duplicate text')} {were} left out: a text that occurs again counts once."
        )
    cut = what_was_cut(manifest)
    return [*notes, cut] if cut else notes


def what_was_cut(manifest: Mapping[str, Any]) -> str:
    """Return how many texts and documents were cut, in sentences; "" where none was.

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
