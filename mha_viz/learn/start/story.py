"""The steps of the first page in words, filled in with one sentence's numbers; and its payload."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np

from mha_viz.core.amounts import format_share
from mha_viz.core.metrics import EarnedLabel, Label
from mha_viz.core.reprs import count
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.start.numbers import MODEL, Followed, Head
from mha_viz.ui.heads.tokenization import language_line, pieces_line
from mha_viz.ui.pages import FIRST as FIRST_PAGE
from mha_viz.web.labels import clean, head_name
from mha_viz.web.payload import encode, pack

TEXTS = read_texts(__package__)
MIN_CARRIED_SHARE = (
    0.5  # the share of the first guess that a head must take along to be said to carry it
)
MIN_PROBABILITY = 0.05  # a likeliest token below this is no idea of what comes next
WAYS = {"lab": "lab-soft-lookup", "circuit": "lab-induction-circuit", "heads": FIRST_PAGE}  # pages
N_ENDING_WORDS = 4  # words that the question repeats
Labels = Sequence[Sequence[Sequence[EarnedLabel]]]
# Labels in the order in which they say most about a head; the others say how far it looks.
FIRST = ("induction", "previous_token", "duplicate", "self", "first_token", "next_token")


def payload(run: Followed, labels: Labels) -> bytes:
    """Pack a sentence for the browser: steps and names, then numbers in float32.

    At the end come the patterns with each head off, of the layers behind it, coded as `encode`
    does: they are for the picture alone.
    """
    guesses, projections = run.guesses, run.projections
    arrays = {
        **{name: getattr(run, name) for name in _ARRAYS},
        "inputs": projections.inputs,
        "weights": projections.weights,
        "projectionBiases": projections.biases,
        "withAll": guesses.with_all,
        "without": guesses.without,
        "logits": guesses.logits,
        "losses": guesses.losses,
    }
    query = urlencode({"model": MODEL, "text": run.text})
    ways = [
        {
            "page": page,
            "address": f"./?{query}" if page == FIRST_PAGE else page,
            "label": TEXTS(f"ways.{key}"),
            "about": TEXTS(f"ways.{key}_about"),
        }
        for key, page in WAYS.items()
    ]
    header = {
        "kind": "sentence",
        "ways": ways,
        "tokens": [clean(token.text) for token in run.tokens],
        "ids": [token.id for token in run.tokens],
        "author": run.author,
        "carrier": run.carrier,
        "labels": [
            [[(e.label.title, e.score) for e in _pattern_labels(h)] for h in row] for row in labels
        ],
        "guesses": [clean(label) for label in guesses.labels],
        "logTotal": guesses.log_total,
        "lens": [[(clean(label), p) for label, p in tokens] for tokens in run.lens],
        "steps": list(steps(run, labels)),
        "arrays": [(name, list(array.shape)) for name, array in arrays.items()],
        "text": clean(run.text, 1000),
        "title": clean(f"tiny-gpt2 on “{run.text}”", 300),
    }
    numbers = b"".join(np.asarray(array, dtype="<f4").tobytes() for array in arrays.values())
    # With a head off, layers up to its own are as they were.
    codes = [encode(off[:, layer + 1 :].numpy()) for layer, off in enumerate(guesses.patterns)]
    return pack(header, numbers + b"".join(code.tobytes() for code in codes))


_ARRAYS = (
    *("embedded", "streams", "attention", "query", "key", "value", "z", "pattern", "written"),
    *("biases", "final", "shares"),
)


def steps(run: Followed, labels: Labels) -> Iterator[Mapping[str, str]]:
    """Yield key, title, text and formula ("" without one) of each step."""
    values, chosen = _values(run, labels), _chosen(run)
    for key in STEPS:
        texts = TEXTS.labels(key)
        text = TEXTS(f"{key}.{chosen.get(key, 'text')}", **values)
        formula = texts.get("rule", "")
        yield {"key": key, "title": texts["title"], "text": text, "formula": formula}


STEPS = (
    *("question", "tokens", "vectors", "head", "scores", "mask", "softmax", "values", "heads"),
    *("sum", "layers", "prediction", "carrier", "off", "ways"),
)


def _chosen(run: Followed) -> dict[str, str]:
    """Return the texts of the steps whose text depends on the numbers."""
    guesses = run.guesses
    without = guesses.without[run.carrier]
    certainty = "text" if float(guesses.with_all[0]) >= MIN_PROBABILITY else "unsure"
    off = "gone" if int(without.argmax()) else "stays"
    return {
        "question": certainty,
        "prediction": certainty,
        "carrier": "text" if float(guesses.losses[run.carrier]) >= MIN_CARRIED_SHARE else "none",
        "off": off if float(without.max()) >= MIN_PROBABILITY else "unsure",
    }


def _values(run: Followed, labels: Labels) -> dict[str, Any]:
    guesses, (layer, head) = run.guesses, run.author
    names = [clean(token.text) for token in run.tokens]
    words = clean(run.text, 1000).split()
    row = run.pattern[layer, head, -1]
    best = int(row.argmax())
    query, key = run.query[layer, head, -1], run.key[layer, head, best]
    carrier = guesses.without[run.carrier]
    author, carrying = head_name(*run.author), head_name(*run.carrier)
    other, text = guesses.labels[int(carrier.argmax())], (run.tokens, run.text)
    values: dict[str, Any] = {
        "ending": " ".join(words[-N_ENDING_WORDS:]),
        "last": names[-1],
        "n": count(len(names), "token"),
        "vocabulary": 4096,
        "guess": clean(guesses.labels[0]),
        "p": float(guesses.with_all[0]),
        "percent": _percent(float(guesses.with_all[0])),
        "split": " ".join(filter(None, (pieces_line(*text), language_line(*text, MODEL)))),
        "author": author,
        "head": head,
        "n_layers": len(run.pattern),
        "n_heads": run.pattern.shape[1],
        "other_percent": _percent(float(carrier.max())),
        "layer": layer,
        "best": names[best],
        "score": float(query @ key) / len(key) ** 0.5,
        "weight": float(row[best]),
        "share": _percent(float(row[best])),
        "weight_off": float(guesses.patterns[*run.carrier, layer, head, -1, best]),
        "named": _named(labels[layer]),
        "lens": ", ".join(_idea(*lens[0]) for lens in run.lens),
        "runs": run.shares.numel(),
        "carrier": carrying,
        "without": float(carrier[0]),
        "other": clean(other),
    }
    return values | {"why": _why(run, labels, values)}


def _idea(label: str, p: float) -> str:
    """Name the likeliest token with its probability, or say that there is no idea."""
    return f"“{clean(label)}” {_percent(p)}" if p >= MIN_PROBABILITY else TEXTS("layers.unsure")


def _percent(share: float) -> str:
    return format_share(share, 0 if share >= 0.1 else 1)


def _why(run: Followed, labels: Labels, values: Mapping[str, Any]) -> str:
    def has(head: Head, key: str) -> bool:
        return any(earned.label.key == key for earned in labels[head[0]][head[1]])

    if run.author == run.carrier:
        return TEXTS("off.same")
    best, ids = int(run.pattern[*run.author, -1].argmax()), [token.id for token in run.tokens]
    repeats = best > 0 and ids[best - 1] == ids[-1]  # it looks behind the last token's first place
    note = has(run.carrier, "previous_token") and run.carrier[0] < run.author[0]
    if repeats and note and has(run.author, "induction"):
        return TEXTS("off.writer", **values)
    return TEXTS("off.other")


def _pattern_labels(earned: Sequence[EarnedLabel]) -> list[EarnedLabel]:
    """Return the labels that say what a head looks at, the most telling first."""
    telling = [earned_label for earned_label in earned if earned_label.label.key in FIRST]
    return sorted(telling, key=lambda earned_label: FIRST.index(earned_label.label.key))


def _named(row: Sequence[Sequence[EarnedLabel]]) -> str:
    """Name the heads of a layer by their first label."""
    kinds: dict[Label, list[str]] = {}
    for head, earned in enumerate(row):
        for earned_label in _pattern_labels(earned)[:1]:
            kinds.setdefault(earned_label.label, []).append(f"H{head} {earned_label.score:.2f}")
    if not kinds:
        return TEXTS("heads.none")
    named = "; ".join(
        TEXTS(
            "heads.induction" if label.key == "induction" else "heads.named",
            title=label.title,
            heads=", ".join(heads),
        )
        for label, heads in kinds.items()
    )
    sinks = any(each.label.key == "first_token" for earned in row for each in earned)
    return TEXTS("heads.some", heads=named, rest=TEXTS("heads.rest") if sinks else "").strip()
