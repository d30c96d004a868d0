"""Every choice a user can make, and the link that carries it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from mha_viz.core.names import DEVICES, DTYPES, HOWS, MATRICES, METHODS, PAIR_MEASURES, PRODUCTS
from mha_viz.ui.session import link_values as read
from mha_viz.ui.session.link_values import MAX_URL_TEXT as MAX_URL_TEXT
from mha_viz.ui.session.link_values import real as real
from mha_viz.ui.session.link_values import whole as whole

MAX_HEADS = 8
MAX_CLUSTERS = 12
MAX_TESTED = 64
MAX_OFF = 2_500
MAX_WRITTEN = 200  # tokens that a model writes behind a text
MODELS = ("model", "model_b", "corpus_model_b")
TEXTS = ("text", "pair", "text_b", "source")
SPACES = (*MATRICES, *PRODUCTS)
# What a link says -> what the page calls it.
SCALES = {"sqrt": "Square root", "linear": "Linear", "log": "Log"}
SHOWS = {
    "heatmap": "Heatmap",
    "lines": "Token lines",
    "table": "Top pairs",
    "carried": "Carried",
    "pair": "Query · key",
    "plotly": "Exact chart",
}
SECTIONS = {
    "layers": "Across layers",
    "twins": "Twins",
    "alike": "Look alike, do alike?",
    "sides": "Side by side",
    "diversity": "Diversity",
    "flow": "Through all layers",
}
CIRCUITS = {
    "writes": "What it writes",
    "looks": "Why it looks there",
    "weights": "Who reads whom",
    "graph": "The graph",
    "effect": "By effect",
    "test": "Test a circuit",
}
TASKS = {
    "induction": "Random tokens said twice",
    "phrase": "A phrase said twice",
    "agreement": "Subject and verb",
    "closing": "Closing brackets and quotes",
}
THROUGH = {"Q": "its queries", "K": "its keys", "V": "its values"}
QUANTITIES = {"logit": "its logit", "log_probability": "its log-probability"}
BEHAVIOURS = {
    "logit_difference": "difference of two logits",
    "logit": "logit",
    "loss": "loss",
    "kl": "KL divergence",
}
FLOWS = {"proximity": "Nearness to the sum", "norm": "Length"}
WAYS = {"direct": "Direct", "total": "Total"}
PARTS = {
    "self": "Self-attention",
    "encoder": "Encoder",
    "decoder": "Decoder",
    "cross": "Cross attention",
}
BETWEEN = ("aa", "ab", "ba", "bb")  # sentences that look and are looked at
ORDERS = {"layer": "By layer", "cluster": "By likeness"}
OUTPUTS = {
    "cka": "CKA of outputs",
    "redundancy": "redundancy R of outputs",
    "redundancy_textbook": "R as in textbooks",
}
SAME_MODEL = "same"  # in place of a model's name
Choice = str | int | float | tuple[tuple[int, int], ...]  # what a field of `View` holds
T = TypeVar("T")


# -- the view ------------------------------------------------------------------------------------


def _choice(default: T, read: Callable[[str], T]) -> T:
    """A field of `View`: what it is at first, and what reads it from a link."""
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class View:
    """One view of the app; the same View gives the same page. Pages share it.

    Args:
        model, text, pair, part: what runs. `pair` "" is no second text.
        layer, head: the chosen head; -1 until the text is run, for the one that tells most.
        heads: heads drawn together as lines, as (layer, head); empty is the chosen one.
        scale: colour scale. sort: "" by layer and head, or the key of a metric.
        least: heads with less of the metric they are sorted by are left out; 0 is all.
        only: "" for all heads, or the key of the label that heads must have.
        words: sub-words merged. no_special, no_first: tokens left out.
        between: "ab" for what the first sentence looks at in the second, and so on; "" for all.
        show: which picture of the head. mass: share of a row's mass whose lines are drawn.
        query, key: the pair of tokens looked at; -1 is the pair with the largest weight.
        device, dtype: where the model runs, and in which numbers.
        section: what the Compare page compares. metric: what it draws by layer.
        measure: how any two heads are compared. order: of the matrix of all heads.
        clusters: into how many groups heads are cut.
        layer_b, head_b: the second head of a pair.
        text_b, model_b: the other side of two texts or two models; "" is the same one.
        outputs: how what any two heads write is compared.
        space: the parameters, or products of them, whose likeness is shown.
        upto: the layer that rollout and flow lead to; -1 is the last one.
        off: heads that the Intervene page changes. how: what is done to them, with `factor`
            where they are scaled and `source`, a second text, where they are patched.
        place: the token whose prediction is shown; -1 is the last one, or the first mask.
        target, against: tokens whose probability is followed; "" is the likeliest, and none.
        method: how importance is found.
        written: how many tokens the model has written behind the text; by next_temperature,
            next_top_k (0 is all) and next_seed, and by `branches`: (position, token) of those that
            somebody chose.
        corpus: the texts that are studied; "" is the sample that comes with the app. joined: of a
            treebank, a text is a document and not a sentence. kind: the key of the label by which
            the Corpus page colours heads; "" is by the metric, "relation" by a relation of gold
            trees: `arc`, as "nsubj.to_head".
        gold: whether a head's examples are drawn with their gold trees.
        from_word, to_word: what is searched in a study, "" is any word; with `min_weight` at least,
            and in the chosen head or, with `any_head`, in all of them. from_upos, to_upos: their
            parts of speech; along: a relation as `arc`; "" is any. previous: only at the nearest
            such word before.
        corpus_b, corpus_model_b: the study that this one is compared with. Texts: "" for the same
            ones, "sample", or some of one's own; model: `SAME_MODEL`, or "" for its architecture
            with random weights, over the same texts.
        circuit: what the Circuits page shows. quantity: what it takes apart there: of `target`,
            less that of `against`, predicted at `place`.
        through: into what the chosen head reads the second one. behaviour: what a path's effect is
            on; way: with all between held, or not. `source` is the text that is patched from.
        flow: how shares of the graph are measured.
        task: what a circuit is tested on. tested: its heads; empty is the chosen one.
        versus_key: a key whose score is taken off that of the pair of tokens; -1 is none.
    """

    model: str = _choice("tiny-bert", read.model)
    text: str = _choice("", read.text)
    pair: str = _choice("", read.text)
    part: str = _choice("self", read.one_of(PARTS))
    layer: int = _choice(-1, read.index)
    head: int = _choice(-1, read.index)
    heads: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_HEADS))
    scale: str = _choice("sqrt", read.one_of(SCALES))
    sort: str = _choice("", read.metric)
    least: float = _choice(0.0, read.real(0.0, 1e6))
    only: str = _choice("", read.key)
    words: bool = _choice(False, read.switch)
    no_special: bool = _choice(False, read.switch)
    no_first: bool = _choice(False, read.switch)
    between: str = _choice("", read.one_of(BETWEEN))
    show: str = _choice("heatmap", read.one_of(SHOWS))
    mass: float = _choice(0.9, read.real(0.2, 1.0))
    query: int = _choice(-1, read.position)
    key: int = _choice(-1, read.position)
    device: str = _choice("auto", read.one_of(DEVICES))
    dtype: str = _choice("float32", read.one_of(DTYPES))
    section: str = _choice("layers", read.one_of(SECTIONS))
    metric: str = _choice("entropy", read.metric)
    measure: str = _choice("hellinger", read.one_of(PAIR_MEASURES))
    order: str = _choice("layer", read.one_of(ORDERS))
    clusters: int = _choice(4, read.whole(1, MAX_CLUSTERS))
    layer_b: int = _choice(0, read.index)
    head_b: int = _choice(1, read.index)
    text_b: str = _choice("", read.text)
    model_b: str = _choice("", read.model)
    outputs: str = _choice("cka", read.one_of(OUTPUTS))
    space: str = _choice("W_QK", read.one_of(SPACES))
    upto: int = _choice(-1, read.position)
    off: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_OFF))
    how: str = _choice("zero", read.one_of(HOWS))
    factor: float = _choice(0.5, read.real(-10.0, 10.0))
    source: str = _choice("", read.text)
    place: int = _choice(-1, read.position)
    target: str = _choice("", read.token)
    against: str = _choice("", read.token)
    method: str = _choice("ablation", read.one_of(METHODS))
    written: int = _choice(0, read.whole(0, MAX_WRITTEN))
    next_temperature: float = _choice(0.0, read.real(0.0, 5.0))
    next_top_k: int = _choice(0, read.whole(0, 9_999))
    next_seed: int = _choice(0, read.whole(0, 999_999_999))
    branches: tuple[tuple[int, int], ...] = _choice((), read.branches)
    corpus: str = _choice("", read.key)
    joined: bool = _choice(False, read.switch)
    kind: str = _choice("", read.key)
    arc: str = _choice("all.to_head", read.arc)
    gold: bool = _choice(False, read.switch)
    from_word: str = _choice("", read.token)
    to_word: str = _choice("", read.token)
    min_weight: float = _choice(0.3, read.real(0.0, 1.0))
    any_head: bool = _choice(False, read.switch)
    from_upos: str = _choice("", read.key)
    to_upos: str = _choice("", read.key)
    along: str = _choice("", read.arc)
    previous: bool = _choice(False, read.switch)
    corpus_b: str = _choice("", read.key)
    corpus_model_b: str = _choice("", read.model)
    circuit: str = _choice("writes", read.one_of(CIRCUITS))
    quantity: str = _choice("logit", read.one_of(QUANTITIES))
    versus_key: int = _choice(-1, read.position)
    through: str = _choice("K", read.one_of(THROUGH))
    behaviour: str = _choice("logit_difference", read.one_of(BEHAVIOURS))
    way: str = _choice("direct", read.one_of(WAYS))
    flow: str = _choice("proximity", read.one_of(FLOWS))
    task: str = _choice("induction", read.one_of(TASKS))
    tested: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_TESTED))

    @property
    def checkpoint(self) -> tuple[str, str, str]:
        """What is loaded: model, device and number format."""
        return self.model, self.device, self.dtype

    @property
    def run(self) -> tuple[str, ...]:
        """What is run: another one of these, and nothing is written behind it yet."""
        return self.model, self.text, self.pair, self.part

    @property
    def chosen(self) -> tuple[int, int]:
        """The chosen head as (layer, head)."""
        return self.layer, self.head

    @property
    def axes(self) -> tuple[bool, bool, bool, str]:
        """What is done to the tokens of a record before it is shown."""
        return self.words, self.no_special, self.no_first, self.between


# What is chosen in the workbench itself, in the browser.
BENCH = (
    *("layer", "head", "heads", "scale", "sort", "least", "only", "words", "no_special"),
    *("no_first", "between", "show", "mass", "query", "key"),
)
NAMES = frozenset(choice.name for choice in fields(View))
DEFAULT = View(text="The king (who was old and tired) smiled, said nothing, and went to bed.")


def to_params(view: View) -> dict[str, str]:
    """The URL's parameters: model and text always, the rest where it is not what a link means."""
    always = ("model", "text", *(("layer_b", "head_b") if _two_runs(view) else ()))
    params: dict[str, str] = {}
    for choice in fields(View):
        value = getattr(view, choice.name)
        if choice.name in TEXTS and len(value) > MAX_URL_TEXT:
            continue
        if choice.name in ("layer_b", "head_b") and value < 0:  # the one chosen, not known yet
            continue
        if choice.name in always or value != getattr(DEFAULT, choice.name):
            params[choice.name] = written(value)
    return params


def from_params(params: Mapping[str, str], folders: Container[str] = ()) -> tuple[View, list[str]]:
    """A view from an untrusted URL, and what had to be ignored in it, in plain words.

    Anything unknown or out of range keeps its default; whether a layer or a model exists is found
    out later, when the model is there. A link may name one of `folders`, which somebody has typed
    by hand since the server started, but no other path.
    """
    view, problems = DEFAULT, []
    for choice in fields(View):
        if choice.name not in params:
            continue
        raw = params[choice.name]
        try:
            known = choice.name in MODELS and raw in folders
            value: Any = raw if known else choice.metadata["read"](raw)
        except ValueError:
            shown = raw if len(raw) <= 40 else raw[:39] + "…"
            problems.append(f"The link's {choice.name}={shown!r} makes no sense and was left out.")
            continue
        view = replace(view, **{choice.name: value})
    if max(view.chosen) >= 0:  # an older link leaves out the one that is 0
        view = replace(view, layer=max(view.layer, 0), head=max(view.head, 0))
    if _two_runs(view) and not {"layer_b", "head_b"} & params.keys():
        view = replace(view, layer_b=view.layer, head_b=view.head)
    return view, problems


def sent_choices(sent: object) -> dict[str, Choice]:
    """What the workbench sent, as far as it makes sense: anyone can send anything.

    >>> sent_choices({"layer": "3", "scale": "log", "words": "1", "model": "a/b", "head": "x"})
    {'layer': 3, 'scale': 'log', 'words': True}
    """
    if not isinstance(sent, Mapping):
        return {}
    found: dict[str, Choice] = {}
    for choice in fields(View):
        raw = sent.get(choice.name)
        if choice.name not in BENCH or not isinstance(raw, str):
            continue
        default = getattr(DEFAULT, choice.name)
        try:  # "" is no order, and no kind of heads
            found[choice.name] = default if raw == default else choice.metadata["read"](raw)
        except ValueError:
            continue
    return found


def _two_runs(view: View) -> bool:
    """Whether another text or model is compared: by the same head, unless another one is chosen."""
    return bool(view.text_b.strip() or view.model_b)


def written(value: object) -> str:
    """A choice as it is written in a link."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple):
        return ",".join(f"{layer}.{head}" for layer, head in value)
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
