"""The prediction or the task that the page decomposes, and messages where that cannot be done."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, SupportsFloat, TypeVar

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.attribution.logit_attribution import LogitAttribution
from mha_viz.circuits.attribution.score_attribution import ScoreAttribution
from mha_viz.circuits.effects.over_pairs import TaskAttribution
from mha_viz.circuits.tasks.accuracy import LEAST, task_accuracy
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.circuits.tasks.task import Example, Task
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, MhaVizError, NotKeptError
from mha_viz.plots.difference import head_changes
from mha_viz.prediction.logits import check_predicts, objective
from mha_viz.text.encoding import label_of
from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.views import TASKS, TITLES, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import plain

T = TypeVar("T")


@contextmanager
def known_parts() -> Iterator[None]:
    """Show what a family does not allow as information, and what somebody can mend as an error."""
    try:
        yield
    except (AttentionUnavailableError, NotKeptError) as refusal:
        st.info(plain(str(refusal)), icon=":material/block:")
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")


def model() -> AttentionModel:
    """Return the model of the page."""
    return memory.model(*state.of(Circuits).checkpoint)


def computed(
    scene: Scene, *what: Hashable, make: Callable[[AttentionModel], T], size: int = 10_000
) -> T:
    """Return what `make` computes of the scene's text, once; `size` is in bytes."""
    loaded = model()

    def run() -> T:
        with turn_for(loaded, scene.text):
            return make(loaded)

    return reporting.cached(scene, "circuits", *what, make=run, size=size)


def of_text(
    scene: Scene, function: Callable[..., T], *args: Hashable, size: int = 10_000, **more: Hashable
) -> T:
    """Return what a function of the library finds in the scene's text, once; `size` is in bytes."""
    what = function.__name__, args, tuple(more.items())
    found = partial(function, **more)
    return computed(scene, *what, make=lambda one: found(one, scene.text, *args), size=size)


def first_labels(scene: Scene) -> list[str]:
    """Return the tokens of the first text that the page measures."""
    pairs = zip(scene.record.tokens, scene.record.labels, strict=True)
    return [label for token, label in pairs if not token.segment][: model().n_stored]


def say_what_is_measured(scene: Scene) -> None:
    """Say so where the page measures only the beginning of a text."""
    n_all = sum(not token.segment for token in scene.record.tokens)
    n_measured = len(first_labels(scene))
    if n_measured < n_all:
        st.info(TEXTS("targets.beginning", measured=f"{n_measured:,}", all=f"{n_all:,}"))


def pickers(scene: Scene, quantity: bool = True) -> int:
    """Draw menus for the predicted token, its place and what it is compared with; return the place.

    Raises AttentionUnavailableError: the model predicts no tokens.
    """
    view, masked = state.of(Circuits), check_predicts(model().network) == "masked"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = place_menu(scene, "Masked and predicted" if masked else "Predicted after")
        controls.token_boxes(160)
        if quantity:
            both = bool(view.against.strip())
            shown = "logit" if both else view.quantity
            looks = choosing.Look(width=190, displayed=shown, disabled=both)
            choosing.menu("quantity", "Decompose", TITLES["quantities"], **looks)
    return place


def place_menu(scene: Scene, label: str) -> int:
    """Draw the menu of the token that the page is about; returns its position.

    Until one is chosen the page is about a word. A causal model predicts what follows the text, or
    its last word where a full stop or another sign ends it. A masked model predicts its first gap,
    else the last word, and never tokens such as [SEP].
    """
    masked, gap = objective(model().network) == "masked", model().tokenizer.mask_token_id
    tokens = [token for token in scene.record.tokens if not token.segment]
    offered = words.places(first_labels(scene))
    if masked:
        words_and_gaps = [i for i in offered if not tokens[i].is_special or tokens[i].id == gap]
        offered = {i: offered[i] for i in words_and_gaps} or offered
    gaps = [i for i in offered if masked and tokens[i].id == gap]
    named = [i for i in offered if tokens[i].text.isalnum()]
    default = gaps[0] if gaps else (named or list(offered))[-1]
    if not masked and default + 1 < len(tokens):
        word = tokens[default].word
        first = default if word is None else [token.word for token in tokens].index(word)
        default = max(first - 1, 0)
    place = state.of(Circuits).place
    place = place if place in offered else default
    choosing.menu("place", label, offered, displayed=place, width=190)
    return place


def whole_and_parts(
    found: LogitAttribution | ScoreAttribution | TaskAttribution, name: str
) -> None:
    """Write a quantity, the sum of its parts, and what rounding left."""
    sums = {"sum": found.sum(), "rest": abs(found.remainder)}
    st.markdown(TEXTS("targets.sum", name=plain(name), value=found.value, **sums))
    st.caption(TEXTS("targets.frozen"))


def draw_heads(
    values: NDArray[np.floating], title: str, unit: str = "", *, key: str, **shown: Any
) -> None:
    """Draw a signed number of each head; a click chooses the head. `shown` is for the figure."""
    chosen, dark = state.of(Circuits).chosen, look.dark()
    looks: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": dark}
    figure = head_changes(values, title, unit, diverging=True, selected=chosen, **looks)
    figures.show(figure, key=key, on_click=words.choose, **shown)


def signed(value: SupportsFloat) -> str:
    """Write a share with its sign, short.

    >>> signed(-0.12345), signed(float("nan"))
    ('−0.123', 'not defined')
    """
    return words.format_number(value, signed=True)


OWN = "own"
N_SHOWN = 3  # texts of a task
N_LEFT_OUT = 5  # sentences on what was left out
AROUND = 12  # tokens on both sides of where the texts of a long pair differ


class Chosen(NamedTuple):
    """A task, and what it was made of: a name or lines."""

    task: Task
    source: str


def over_pairs() -> Chosen | None:
    """Draw the switch from the typed text to the pairs of a task; return the task if it is on."""
    state.bound("averaged", st.toggle, "Mean over the pairs of a task")
    return choose() if state.of(Circuits).averaged else None


def choose() -> Chosen:
    """Draw the choice of a task, how well the model does it, and some of its texts.

    Raises ArgumentError: a vocabulary that lacks the task's words, or no pair that fits.
    LimitError: lines that are too long for this server.
    """
    choosing.segments("task", "Task", TASKS)
    view = state.of(Circuits)
    source = view.task if view.task != OWN else _typed(view) + "\n"  # never the name of another
    allowed.check_text(source)
    with st.spinner("Writing texts …"):
        task = memory.cache().get(
            (*view.checkpoint, "task", source),
            partial(make_task, model(), source),
            lambda task: 500 * sum(len(one.clean.tokens) for one in task.examples),
        )
    chosen = Chosen(task, source)
    found = of_task("accuracy", chosen, task_accuracy, lambda found: 500)
    (st.success if found.share >= LEAST else st.warning)(plain(found.sentence))
    if task.left_out:
        more = len(task.left_out) - N_LEFT_OUT
        lines = [f"- {plain(sentence)}" for sentence in task.left_out[:N_LEFT_OUT]]
        lines += [f"- … and {more:,} more"] if more > 0 else []
        st.info("\n".join(lines), icon=":material/content_cut:")
    label = partial(label_of, model().tokenizer)
    lines = [
        f"- {aligned(one)} → **{plain(label(one.right))}**, not {plain(label(one.wrong))}"
        for one in task.examples[:N_SHOWN]
    ]
    st.markdown(TEXTS("tasks.examples", n=len(task.examples), lines="\n".join(lines)))
    return chosen


def of_task(
    what: str, chosen: Chosen, make: Callable[[AttentionModel, Task], T], size: Callable[[T], int]
) -> T:
    """Return what `make` computes of a task, once; `size` is in bytes."""
    loaded = model()

    def run() -> T:
        with turn_for(loaded, "".join(one.clean.text for one in chosen.task.examples)):
            return make(loaded, chosen.task)

    return memory.cache().get((*state.of(Circuits).checkpoint, what, chosen.source), run, size)


def measured(
    function: Callable[..., Any], chosen: Chosen, *heads: object, passes: int, what: str
) -> Any:
    """Return what heavy work on a task finds; its time is estimated by passes over all texts."""
    checkpoint = state.of(Circuits).checkpoint
    n_tokens = sum(len(one.clean.input_ids) for one in chosen.task.examples)
    work = heavy.work(
        partial(function, heavy.model_of(checkpoint), chosen.task, *heads),
        (checkpoint, function.__name__, chosen.source, heads),
        heavy.seconds(model(), passes * n_tokens),
    )
    begin = "Searching …" if what == "proposing" else "Measuring …"
    return progress.done(work, f"stop_{what}", begin, progress.of_total)


def _typed(view: Circuits) -> str:
    """Draw the editor of own pairs and return what it holds; an example where that is nothing."""
    shown = view.pairs if view.pairs.strip() else TEXTS("tasks.example").strip()
    state.bound("pairs", st.text_area, displayed=shown, **TEXTS.control("pairs"))
    st.caption(TEXTS("tasks.form"))
    return shown


def aligned(one: Example) -> str:
    """Write a pair token by token, both tokens where they differ; of a long one, what is near."""
    pairs = list(zip(one.clean.tokens, one.corrupt.tokens, strict=True))
    marked = [i for i, (clean, corrupt) in enumerate(pairs) if clean.id != corrupt.id] + [one.place]
    near = {i for at in marked for i in range(at - AROUND, at + AROUND + 1)}
    words, before = list[str](), -1
    for i, (clean, corrupt) in enumerate(pairs):
        if i not in near:
            continue
        words += ["…"] if i > before + 1 else []
        both = f"**{plain(clean.text)} / {plain(corrupt.text)}**"
        words.append(plain(clean.text) if clean.id == corrupt.id else both)
        before = i
    return " · ".join(words + (["…"] if before + 1 < len(pairs) else []))
