"""The prediction that the page decomposes, and messages where that cannot be done."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsFloat, TypeVar

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.decompose.logit_attribution import LogitAttribution
from mha_viz.circuits.decompose.score_attribution import ScoreAttribution
from mha_viz.circuits.tasks.over_pairs import TaskAttribution
from mha_viz.core.record.fields import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, MhaVizError, NotKeptError
from mha_viz.plots.difference import head_changes
from mha_viz.prediction.logits import check_predicts, objective
from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUANTITIES, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
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


def computed(
    scene: Scene, *what: Hashable, make: Callable[[AttentionModel], T], size: int = 10_000
) -> T:
    """Return what `make` computes of the scene's text, once; `size` is in bytes."""
    model = memory.model(*state.of(Circuits).checkpoint)

    def run() -> T:
        with turn_for(model, scene.text):
            return make(model)

    return reporting.cached(scene, "circuits", *what, make=run, size=size)


def first_labels(scene: Scene) -> list[str]:
    """Return the tokens of the first text that the page measures."""
    record, most = scene.record, memory.model(*state.of(Circuits).checkpoint).n_stored
    pairs = zip(record.tokens, record.labels, strict=True)
    return [label for token, label in pairs if not token.segment][:most]


def say_what_is_measured(scene: Scene) -> None:
    """Say so where the page measures only the beginning of a text."""
    n_all = sum(not token.segment for token in scene.record.tokens)
    n_measured = len(first_labels(scene))
    if n_measured < n_all:
        st.info(TEXTS("targets.beginning", measured=f"{n_measured:,}", all=f"{n_all:,}"))


def pickers(scene: Scene, quantity: bool = True) -> int:
    """Draw menus for the predicted token, its place and what it is compared with; return the place.

    Raises:
        AttentionUnavailableError: the model predicts no tokens.
    """
    model, view = memory.model(*state.of(Circuits).checkpoint), state.of(Circuits)
    masked = check_predicts(model.network) == "masked"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = place_menu(scene, "Masked and predicted" if masked else "Predicted after")
        controls.token_boxes(160)
        if quantity:
            both = bool(view.against.strip())
            shown = "logit" if both else view.quantity
            look_of = choosing.Look(width=190, displayed=shown, disabled=both)
            choosing.menu("quantity", "Decompose", QUANTITIES, **look_of)
    return place


def place_menu(scene: Scene, label: str) -> int:
    """Draw the menu of the token that the page is about; returns its position.

    Until one is chosen the page is about a word. A causal model predicts what follows the text, or
    its last word where a full stop or another sign ends it. A masked model predicts its first gap,
    else the last word, and never tokens such as [SEP].
    """
    model, view = memory.model(*state.of(Circuits).checkpoint), state.of(Circuits)
    masked, gap = objective(model.network) == "masked", model.tokenizer.mask_token_id
    tokens = [token for token in scene.record.tokens if not token.segment]
    offered = words.places(first_labels(scene))
    if masked:
        words_and_gaps = [i for i in offered if not tokens[i].is_special or tokens[i].id == gap]
        offered = {i: offered[i] for i in words_and_gaps} or offered
    gaps = [i for i in offered if masked and tokens[i].id == gap]
    named = [i for i in offered if tokens[i].text.isalnum()]
    default = gaps[0] if gaps else (named or list(offered))[-1]
    if not masked and default + 1 < len(tokens):
        default = max(_first_of_word(tokens, default) - 1, 0)
    place = view.place if view.place in offered else default
    choosing.menu("place", label, offered, displayed=place, width=190)
    return place


def _first_of_word(tokens: Sequence[Token], last: int) -> int:
    """Find the first token of the word that a token is of."""
    word = tokens[last].word
    if word is None:
        return last
    return next(i for i, token in enumerate(tokens) if token.word == word)


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
    figure = head_changes(values, title, unit, diverging=True, selected=chosen, dark=dark)
    figures.show(figure, key=key, on_click=words.choose, **shown)


def signed(value: SupportsFloat) -> str:
    """Write a share with its sign, short.

    >>> signed(-0.12345), signed(float("nan"))
    ('−0.123', 'not defined')
    """
    number = float(value)
    return words.UNDEFINED if number != number else f"{number:+.3g}".replace("-", "−")
