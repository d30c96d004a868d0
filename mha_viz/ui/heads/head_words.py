"""One head in a sentence: its largest weight that is its own."""

from mha_viz.core.record.record import AttentionRecord
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_weight

Place = tuple[int, int]


def in_words(record: AttentionRecord, head: Place) -> str:
    """Describe the picture of a head in a sentence."""
    name = words.head_name(*head)
    query, key = strongest_pair(record, head)
    weight = float(record.head(*head)[query, key])
    if weight == 0:
        return f"{name} attends to nothing on this text."
    first = "word" if record.merged else "token"
    lone = TEXTS("head_words.lone", first=first) if _lone(record) else ""
    ends = {"query": record.labels[query], "key": record.key_labels[key]}
    share = format_weight(weight)
    return TEXTS("head_words.largest", name=name, weight=share, **ends, lone=lone)


def strongest_pair(record: AttentionRecord, head: Place) -> Place:
    """Return the query and the key of a head's largest weight that is its own."""
    n_queries, n_keys = record.shape[2:]
    rows = range(n_queries)[_lone(record) :]
    weights = record.head(*head)[rows.start : rows.stop]
    query, key = divmod(int(weights.argmax()), n_keys)
    return rows[query], key


def _lone(record: AttentionRecord) -> int:
    """Return how many rows have weight 1 in every head: a causal model's first token."""
    # Where that token is the whole text, there is nothing else to name.
    return int(record.causal and not record.is_cross and len(record.tokens) > 1)
