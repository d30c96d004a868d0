"""The results of a sweep over families as a page of the documentation."""

from collections import Counter
from collections.abc import Sequence

from tests.families.trial import EXACT, LENGTHS, OUTCOMES, TOLERANCE, Result

_MEANING = {
    "works": "the weights are those of the family's own eager attention.",
    "works with a note": "the same, and the note says what is different.",
    "refused": "loading stops with an error that says why.",
    "fails": "the weights differ, or an error was not foreseen.",
    "not tried": "the sweep cannot build a small network of it.",
}


def counts(results: Sequence[Result]) -> str:
    """Return how many families have each outcome, in a line."""
    n = Counter(result.outcome for result in results)
    parts = ", ".join(f"{n[outcome]} {outcome}" for outcome in OUTCOMES if n[outcome])
    return f"{len(results)} families: {parts}."


def page(results: Sequence[Result], version: str) -> str:
    """Return the page: counts at its head, then a table for each outcome."""
    lengths = ", ".join(map(str, LENGTHS[:-1])) + f" and {LENGTHS[-1]}"
    lines = [
        "# Model families",
        "",
        f"Every text family of transformers {version}, tried as a tiny random network. "
        f"**{counts(results)}**",
        "",
        f"The weights of texts of {lengths} tokens, alone and in a padded batch, of the network "
        "wrapped (`mv.wrap`) and loaded from a folder (`mv.load`), are compared with those that "
        f"the same network gives out with its own eager attention, and may differ by {TOLERANCE:g}."
        " Where the family's own weights in float32 are further than that from its own in float64, "
        f"float64 decides: there ours may differ by {EXACT:g}. `make families` writes this page.",
    ]
    for outcome in OUTCOMES:
        rows = [result for result in results if result.outcome == outcome]
        if not rows:
            continue
        lines += ["", f"## {outcome.capitalize()}", "", f"{len(rows)}: {_MEANING[outcome]}", ""]
        lines += ["| Family | Class | Why |", "|---|---|---|"]
        lines += [
            f"| `{result.family}` | {result.network and f'`{result.network}`'} | "
            f"{_cell(result.reason)} |"
            for result in rows
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a table."""
    for sign, instead in (("\n", " "), ("|", "\\|"), ("<", "&lt;"), ("[", "\\["), ("_", "\\_")):
        text = text.replace(sign, instead)
    return text
