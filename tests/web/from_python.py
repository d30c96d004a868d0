"""Values on which both languages must agree, written down for the tests of the JavaScript."""

import itertools
from dataclasses import replace

import numpy as np

import mha_viz as mv
from mha_viz.circuits.attribution.flow_graph import flow_graph
from mha_viz.core.record.fields import Token
from mha_viz.core.record.views import between
from mha_viz.learn.start import numbers, story
from mha_viz.reports.report import KEEP, report
from mha_viz.text.from_weights import record
from mha_viz.ui.widgets.components.flow_graph import graph_payload
from mha_viz.web.payload import KINDS, bundle, grid_payload, head_payload, map_payload, pack
from mha_viz.web.space_payload import spaces_payload
from mha_viz.web.theme import format_number, format_weight, palette
from tests.web import drawn
from tests.web.drawn import text_of


def _reduced() -> dict[str, object]:
    """Return attention on words of several tokens, and what Python makes of it for each wish."""
    parts = ["[CLS]", "walk", "ing", "home", "wards", ",", "un", "happily", "[SEP]"]
    starts = [None, 0, 4, 8, 12, 17, 19, 21, None]
    words = [None, 0, 0, 1, 1, 2, 3, 3, None]
    tokens = [
        Token(part, 7, start, start and start + len(part), word, is_special=word is None)
        for part, start, word in zip(parts, starts, words, strict=True)
    ]
    tokens += [
        Token("do", 7, 0, 2, 4, segment=1),
        Token("gs", 7, 2, 4, 4, segment=1),
        Token("[SEP]", 7, is_special=True, segment=1),
    ]
    n = len(tokens)
    dice = np.random.default_rng(3)
    pattern = np.tril(dice.random((2, 2, n, n)) ** 3)
    pattern[0, 1] = np.eye(n)[0]  # all of it on what is left out
    pattern /= pattern.sum(-1, keepdims=True)
    whole = record(pattern.astype(np.float32), tokens, text="walking homewards, unhappily")
    whole = replace(whole, causal=True, text_pair="dogs")
    cases = []
    asked = (False, True), (False, True), (False, True), ("", "ba", "aa")
    for merged, no_special, no_first, sides in itertools.product(*asked):
        made = whole.merge_words() if merged else whole
        made = made.without_first() if no_first else made
        made = made.without_special() if no_special else made
        made = between(made, *("ab".index(side) for side in sides)) if sides else made
        wish = {"words": merged, "no_special": no_special, "no_first": no_first, "between": sides}
        grid = text_of(grid_payload(made))
        cases.append({"wish": wish, "pattern": made.pattern.tolist(), "grid": grid})
    return {"pattern": whole.pattern.tolist(), "cases": cases}


def _flow() -> dict[str, object]:
    """Return a graph of everything, and what Python keeps of it above some thresholds."""
    model, text = mv.load("tiny-bert"), "The cat sat."
    whole = flow_graph(model, text, 2, 0)
    cases = []
    for threshold in (0.01, 0.05, 0.2):
        kept = flow_graph(model, text, 2, threshold)
        parts = int(kept.edges.kind.isin(KINDS).sum())
        inputs = kept.nodes[(kept.nodes.layer == 0) & (kept.nodes.stage == "in")]
        flow = dict(zip(inputs.position.tolist(), inputs.flow.tolist(), strict=True))
        cases.append({"threshold": threshold, "cut": kept.cut, "parts": parts, "inputs": flow})
    return {"payload": text_of(graph_payload(whole)), "cases": cases}


def _map() -> dict[str, object]:
    """Return the maps of two texts, and what one head's points and weights are."""
    found = mv.query_key_map(mv.load("tiny-gpt2"), ["The cat sat.", "A cat ran to the cat."])
    names = ("points", "strongest", "weights", "plane_correlation")
    arrays = {name: getattr(found, name).tolist() for name in names}
    labels = [token.text for token in found.tokens]
    return {"payload": text_of(map_payload(found)), "labels": labels, **arrays}


def _sentence() -> dict[str, object]:
    """Return one sentence's payload, and some of its numbers."""
    model, text = mv.load(numbers.MODEL), "A cat saw a cat."
    found = numbers.follow(model, text)
    labels = report(model.trace(text, keep=KEEP)).labels
    names = ("query", "key", "value", "z", "pattern", "streams", "attention")
    arrays = {name: getattr(found, name).tolist() for name in names}
    off = found.guesses.patterns[0, 3].tolist()
    return {"payload": text_of(story.payload(found, labels)), "off": off, **arrays}


def _spaces() -> dict[str, object]:
    """Return tokens in two panels, coloured by category and by number."""
    dice = np.random.default_rng(7)
    points = dice.standard_normal((2, 11, 2)) * np.array([[[3.0, 1.0]], [[1.0, 5.0]]])
    values = np.arange(11) % 3
    tokens, texts = [f"<u>{i}</u>" for i in range(11)], ["A cat ran.", "It saw a <dog>."]
    panels = [("Queries", ("PC 1", "PC 2")), ("<b>Keys</b>", ("PC 1", "PC 2"))]
    about = dict(name="made up", text=[i % 2 for i in range(11)], position=[*range(11)])
    by_kind = dict(title="kind", names=["a", "<i>b</i>", "c"], full=False, limits=[0, 2], ends=[])
    number = dice.random(11)
    ends = [float(number.min()), float(number.max())]
    by_number = dict(title="weight received", names=[], full=False, limits=ends, ends=["0", "1"])

    def packed(of: np.ndarray, colour: dict[str, object]) -> str:
        full = about | dict(texts=texts, colour=colour)
        return text_of(spaces_payload(points, of, panels, tokens, full))

    given = dict(points=points.tolist(), values=values.tolist(), tokens=tokens, texts=texts)
    payloads = dict(categories=packed(values, by_kind), numbers=packed(number, by_number))
    return given | payloads | dict(text=about["text"])


def written() -> dict[str, object]:
    """Return all of them in a form that JSON can hold."""
    dice = np.random.default_rng(5)
    edges = [1e-4, 9.996e-5, 0.0625, 0.5625, 2.125, 99.95, 999.5, 1000.0, 2048.0, 12345.0, 12345.6]
    edges += [999_499.5, 999_999.5, 1e6, 1.5e9, 1e-30, 3.4e38]
    numbers = [*edges, *np.geomspace(1e-9, 1e9, 300).tolist(), *dice.integers(0, 3000, 50).tolist()]
    numbers = [0.0, *(sign * number for number in numbers for sign in (1, -1))]
    weights = [0.0, 1.0, 1e-4, *edges, *(dice.random(200) ** np.linspace(1, 40, 200)).tolist()]
    pattern = dice.dirichlet(np.ones(7), (2, 3, 5)).astype(np.float32)
    labels = [f"q{i}" for i in range(5)], [f"k{i}" for i in range(7)]
    made = record(pattern, *labels)
    head = head_payload(grid_payload(made), made, (1, 2))
    return {
        "palette": palette(),
        "weights": [[weight, format_weight(weight)] for weight in weights],
        "quantities": [
            [n, format_number(n), format_number(n, signed=True), format_number(n, digits=2)]
            for n in numbers
        ],
        "pattern": pattern.tolist(),
        "grid": text_of(grid_payload(made)),
        "bundle": text_of(bundle([grid_payload(made), pack({"kind": "odd"}, b"12345"), head])),
        "head": text_of(head),
        "hybrid": text_of(grid_payload(replace(made, layer_numbers=(3, 7)))),
        "reduced": _reduced(),
        "flow": _flow(),
        "map": _map(),
        "sentence": _sentence(),
        "spaces": _spaces(),
        **drawn.written(),
    }
