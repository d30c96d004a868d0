"""Views: a small one a page over a shared part. `links` writes and reads the address of one."""

import tomllib
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from mha_viz.core import names
from mha_viz.ui.state import link_values as read
from mha_viz.ui.state.link_values import Pin

MAX_HEADS = 8
MAX_CLUSTERS = 12
MAX_TESTED = 64
MAX_LASSO = 200
MAX_OFF = 2_500
MAX_WRITTEN = 200  # tokens that a model writes behind a text
SPACES = (*names.MATRICES, *names.PRODUCTS)
# Tables of what a link says -> what the page calls it.
TITLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("titles.toml").read_text("utf-8")
)
SCALES = TITLES["scales"]
SHOWS = TITLES["shows"]
SECTIONS = TITLES["sections"]
WHY = TITLES["why"]
TASKS = TITLES["tasks"]
THROUGH = TITLES["through"]
BEHAVIOURS = TITLES["behaviours"]
SHARES = range(50, 100)  # of all contributions to a prediction, in percent
WAYS = TITLES["ways"]
PARTS = TITLES["parts"]
BETWEEN = ("aa", "ab", "ba", "bb")  # sentences that look and are looked at
ORDERS = TITLES["orders"]
OUTPUTS = TITLES["outputs"]
QUESTIONS = TITLES["questions"]
TABS = TITLES["tabs"]
PICTURES = TITLES["heads_pictures"]
FINDS = TITLES["finds"]
CHANGES = TITLES["changes"]
FACETS = TITLES["facets"]
MAX_COMPONENTS = 8  # of a head's spaces
COMPARED = TITLES["compared"]  # by which two studies are
SAME_MODEL = "same"  # in place of a model's name
UNTRAINED_COPY = "untrained"  # likewise: the page's model with random weights
Choice = str | int | float | tuple[tuple[int, int] | Pin, ...]  # what a field of `View` holds
T = TypeVar("T")


def _choice(default: T, read: Callable[[str], T], parameter: str = "") -> T:
    """Declare a field of `View`: its default, what reads it from a link, and its name there.

    The name is the field's own unless `parameter` says another one.
    """
    return field(default=default, metadata={"read": read, "parameter": parameter})


def parameter_of(choice: Field[Any]) -> str:
    """Return the name of a field of `View` in links."""
    return choice.metadata.get("parameter") or choice.name


@dataclass(frozen=True)
class Shared:
    """Choices that pages share: model, texts, and the chosen head with what is looked at there.

    A text that is "", a token or head that is -1, or an empty tuple stands for what a page takes
    by itself: the same text, the pair with the largest weight, the head that tells most, its twin,
    the chosen head, the last layer, the first gap or last token, the likeliest token.

    `position` is the token whose prediction is shown, `target` and `against` the tokens tracked
    there, `source` a second text, where heads or a path are patched. `window`: (first, last) of
    queries and of keys that are shown; `tokens`: of neighbours among the tokens chosen together.
    """

    model: str = _choice("tiny-bert", read.model)
    text: str = _choice("", read.text)
    pair: str = _choice("", read.text)
    part: str = _choice("self", read.one_of(PARTS))
    layer: int = _choice(-1, read.index)
    head: int = _choice(-1, read.index)
    query: int = _choice(-1, read.position)
    key: int = _choice(-1, read.position)
    layer_b: int = _choice(-1, read.index)
    head_b: int = _choice(-1, read.index)
    scale: str = _choice("sqrt", read.one_of(SCALES))
    metric: str = _choice("entropy", read.metric)
    measure: str = _choice("hellinger", read.one_of(names.PAIR_MEASURES))
    position: int = _choice(-1, read.position, "place")
    target: str = _choice("", read.token)
    against: str = _choice("", read.token)
    source: str = _choice("", read.text)
    window: tuple[tuple[int, int], ...] = _choice((), read.window)
    tokens: tuple[tuple[int, int], ...] = _choice((), read.spans)
    listed: str = _choice("", read.text)  # words that a head's weights pair; "": of the text
    device: str = _choice("auto", read.one_of(names.DEVICES))
    dtype: str = _choice("float32", read.one_of(names.DTYPES))
    # The model's own numbers of the layers, whose positions all heads have; () for 0, 1, 2 ... and
    # while the model is not there, so that heads are named as in an address.
    layer_numbers: tuple[int, ...] = field(default=(), compare=False)

    @property
    def checkpoint(self) -> tuple[str, str, str]:
        """The loaded checkpoint: model, device and number format."""
        return self.model, self.device, self.dtype

    @property
    def run(self) -> tuple[str, ...]:
        """The run's inputs, before the model has continued the text."""
        return self.model, self.text, self.pair, self.part

    @property
    def chosen(self) -> tuple[int, int]:
        """The chosen head as (layer, head)."""
        return self.layer, self.head

    @property
    def second(self) -> tuple[int, int]:
        """The second head of a pair as (layer, head)."""
        return self.layer_b, self.head_b

    def shown(self, queries: int, keys: int) -> tuple[range, range]:
        """Return the queries and keys that are shown, of so many.

        >>> Shared(window=((2, 3), (0, 99))).shown(8, 8), Shared().shown(8, 8)
        ((range(2, 4), range(0, 8)), (range(0, 8), range(0, 8)))
        """
        axes = range(queries), range(keys)
        if not self.window:
            return axes
        cut = [
            axis[first : last + 1] for axis, (first, last) in zip(axes, self.window, strict=True)
        ]
        return (cut[0], cut[1]) if all(cut) else axes


@dataclass(frozen=True)
class HeadsView(Shared):
    """The view of the Heads page."""

    off: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_OFF))  # the changed heads
    how: str = _choice("zero", read.one_of(names.HOWS))
    factor: float = _choice(0.5, read.real(-10.0, 10.0))  # by which they are scaled
    heads: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_HEADS))  # drawn as lines
    tiles: str = _choice("", read.metric)  # a metric that the tiles show; "": the weights
    sort: str = _choice("", read.metric)  # "": by layer and head
    least: float = _choice(0.0, read.real(0.0, 1e6))  # of `sort`; other heads are left out
    only: str = _choice("", read.key)  # the label that heads must have
    words: bool = _choice(False, read.switch)  # sub-words merged
    no_special: bool = _choice(False, read.switch)
    no_first: bool = _choice(False, read.switch)
    # "ab" for what the first sentence looks at in the second, and so on; "" for all
    between: str = _choice("", read.one_of(BETWEEN))
    show: str = _choice("heatmap", read.one_of(SHOWS))
    weighted: bool = _choice(False, read.switch)  # weights times the length of the values
    general: bool = _choice(False, read.switch)  # numbers over many texts beside this one's
    mass: float = _choice(0.9, read.real(0.2, 1.0))  # share of a row's mass whose lines are drawn
    written: int = _choice(0, read.integer(0, MAX_WRITTEN))  # tokens written behind the text
    next_temperature: float = _choice(0.0, read.real(0.0, 5.0))
    next_top_k: int = _choice(0, read.integer(0, 9_999))
    next_seed: int = _choice(0, read.integer(0, 999_999_999))
    branches: tuple[tuple[int, int], ...] = _choice((), read.branches)  # chosen (position, token)

    @property
    def axes(self) -> tuple[bool, bool, bool, str]:
        """Changes to a record's tokens before it is shown."""
        return self.words, self.no_special, self.no_first, self.between


@dataclass(frozen=True)
class Compare(Shared):
    """The view of the Compare page."""

    section: str = _choice("board", read.one_of(SECTIONS))
    more: str = _choice("diversity", read.one_of(TITLES["more"]))
    board: str = _choice("", read.token)  # the name of the board
    order: str = _choice("layer", read.one_of(ORDERS))
    clusters: int = _choice(4, read.integer(1, MAX_CLUSTERS))
    text_b: str = _choice("", read.text)
    model_b: str = _choice("", read.model)
    outputs: str = _choice("cka", read.one_of(OUTPUTS))
    space: str = _choice("W_QK", read.one_of(SPACES))
    match: str = _choice("hellinger", read.one_of(names.MATCH_MEASURES))  # of heads of two models
    upto: int = _choice(-1, read.position)  # the layer that rollout and flow lead to
    # The heads on the board, () for the chosen head and the second one; `from_params` reads them.
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True)
class ManyTexts(Shared):
    """The view of the page Many texts."""

    tab: str = _choice("heads", read.one_of(TABS))
    picture: str = _choice("scatter", read.one_of(PICTURES))  # of all heads
    x_axis: str = _choice("first_token", read.metric)  # of the scatter: a metric, layer or head
    y_axis: str = _choice("previous_token", read.metric)
    intervals: bool = _choice(False, read.switch)  # drawn as bars
    untrained: bool = _choice(True, read.switch)  # the same heads with random weights, in grey
    lasso: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_LASSO))  # heads within it
    facet: str = _choice("profile", read.one_of(FACETS))  # of one head
    typed: str = _choice("", read.text)  # a text that is ranked among those of the study
    colouring: str = _choice("kind", read.key)  # what tokens of a head's spaces are coloured by
    # the principal components, from 1, that spaces are shown on beside the first two
    component_x: int = _choice(3, read.integer(1, MAX_COMPONENTS))
    component_y: int = _choice(4, read.integer(1, MAX_COMPONENTS))
    find: str = _choice("scores", read.one_of(FINDS))
    change: str = _choice("studies", read.one_of(CHANGES))
    corpus: str = _choice("", read.key)  # the studied texts; "" is the sample
    question: str = _choice("relations", read.one_of(QUESTIONS))  # by which best heads are ranked
    joined: bool = _choice(False, read.switch)  # a text of a treebank is a document
    # the label by which heads are coloured; "" is by the metric, "relation" by `arc`
    kind: str = _choice("", read.key)
    arc: str = _choice("all.to_head", read.arc)
    gold: bool = _choice(False, read.switch)
    any_length: bool = _choice(False, read.switch)  # strongest of all, not of like length
    from_word: str = _choice("", read.token)
    to_word: str = _choice("", read.token)
    min_weight: float = _choice(0.3, read.real(0.0, 1.0))
    any_head: bool = _choice(False, read.switch)
    from_upos: str = _choice("", read.key)
    to_upos: str = _choice("", read.key)
    along: str = _choice("", read.arc)  # a relation to search, as `arc`
    over: str = _choice("previous_token", read.key)  # a metric or label, while a model learned
    previous: bool = _choice(False, read.switch)  # only at the nearest such word before
    # the study to compare with: "" for the same texts, "sample", or own ones
    corpus_b: str = _choice("", read.key)
    corpus_model_b: str = _choice("", read.model)  # "" for random weights over the same texts
    compared: str = _choice("metrics", read.one_of(COMPARED))


@dataclass(frozen=True)
class Why(Shared):
    """The view of the Why page."""

    why: str = _choice("prediction", read.one_of(WHY))
    prediction: str = _choice("parts", read.one_of(TITLES["predictions"]))
    score: str = _choice("parts", read.one_of(TITLES["scores"]))
    connections: str = _choice("weights", read.one_of(TITLES["connections"]))
    test: str = _choice("circuit", read.one_of(TITLES["tests"]))
    quantity: str = _choice("logit", read.one_of(TITLES["quantities"]))
    versus_key: int = _choice(-1, read.position)  # whose score is subtracted; -1 is none
    through: str = _choice("K", read.one_of(THROUGH))  # the input that reads the second head
    behaviour: str = _choice("logit_difference", read.one_of(BEHAVIOURS))
    way: str = _choice("direct", read.one_of(WAYS))
    direction: str = _choice("denoise", read.one_of(TITLES["directions"]))
    flow: str = _choice("proximity", read.one_of(TITLES["flows"]))
    graph_of: str = _choice("prediction", read.one_of(TITLES["graphs"]))  # what it leads into
    explained: int = _choice(60, read.integer(min(SHARES), max(SHARES)))  # percent its edges hold
    graph_pins: str = _choice("", read.nodes)  # that its paths pass, as "L2H3@5,L1mid@4"
    fold: str = _choice("tokens", read.one_of(TITLES["folds"]))  # what its columns are
    together: str = _choice("heads", read.one_of(TITLES["together"]))  # heads that are one node
    task: str = _choice("induction", read.one_of(TASKS))  # "own" stands for `pairs`
    # lines of a clean text, a corrupted one and both answers; "" is an example
    pairs: str = _choice("", read.text)
    averaged: bool = _choice(False, read.switch)  # over the pairs of the task
    tested: tuple[tuple[int, int], ...] = _choice((), read.heads(MAX_TESTED))
    method: str = _choice("ablation", read.one_of(names.METHODS))  # of measuring importance

    @property
    def is_of_task(self) -> bool:
        """True where a task's own pairs are measured, and the sentence plays no part."""
        if self.why == "prediction":
            return self.averaged and (self.prediction, self.graph_of) != ("graph", "state")
        shown = {"connections": self.connections, "test": self.test}.get(self.why)
        return shown in ("task", "circuit")


@dataclass(frozen=True)
class View(HeadsView, Compare, ManyTexts, Why):
    """All choices of a session, which a link carries; each page sees its own part alone."""


# What is chosen in the workbench itself, in the browser.
BENCH = (
    *("layer", "head", "heads", "scale", "tiles", "sort", "least", "only", "words"),
    *("no_special", "no_first", "between", "show", "weighted", "mass", "query", "key", "window"),
    *("tokens", "off", "general"),
)
NAMES = frozenset(parameter_of(choice) for choice in fields(View) if choice.compare)
DEFAULT = View(text="The king (who was old and tired) smiled, said nothing, and went to bed.")


def two_runs(view: Shared) -> bool:
    """Return whether another text or model is compared."""
    return isinstance(view, Compare) and bool(view.text_b.strip() or view.model_b)
