"""The prediction that the page decomposes, and messages where that cannot be done."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, SupportsFloat, TypeVar

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.attribution.logit_attribution import LogitAttribution
from mha_viz.circuits.attribution.score_attribution import ScoreAttribution
from mha_viz.circuits.effects.over_pairs import TaskAttribution
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.difference import head_changes
from mha_viz.prediction.logits import check_predicts, objective
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import TITLES, Why
from mha_viz.ui.why import TEXTS
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain

T = TypeVar("T")


def model(scene: Scene) -> AttentionModel:
    """Return the model of the page."""
    return memory.model(scene.model, scene.device, scene.dtype)


def computed(
    scene: Scene, *key: Hashable, make: Callable[[AttentionModel], T], size: int = 10_000
) -> T:
    """Return what `make` computes of the scene's text, once; `size` is in bytes."""
    loaded = model(scene)

    def run() -> T:
        with turn_for(loaded, scene.text):
            return make(loaded)

    return reporting.cached(scene, "circuits", *key, make=run, size=size)


def of_text(
    scene: Scene, function: Callable[..., T], *args: Hashable, size: int = 10_000, **more: Hashable
) -> T:
    """Return what a function of the library computes of the text, once; `size` is in bytes."""
    key = function.__name__, args, tuple(more.items())
    run = partial(function, **more)
    return computed(scene, *key, make=lambda loaded: run(loaded, scene.text, *args), size=size)


def first_labels(scene: Scene) -> list[str]:
    """Return the tokens of the first text that the page measures."""
    pairs = zip(scene.record.tokens, scene.record.labels, strict=True)
    return [label for token, label in pairs if not token.segment][: model(scene).n_stored]


def say_what_is_measured(scene: Scene) -> None:
    """Say so where the page measures only the beginning of a text."""
    n_all = sum(not token.segment for token in scene.record.tokens)
    n_measured = len(first_labels(scene))
    if n_measured < n_all:
        st.info(TEXTS("targets.beginning", measured=f"{n_measured:,}", all=f"{n_all:,}"))


def pickers(scene: Scene, view: Why) -> int:
    """Draw menus for the predicted token, its place and what it is compared with; return the place.

    They stand in the container of the caller. Raises AttentionUnavailableError: the model predicts
    no tokens.
    """
    masked = check_predicts(model(scene).network) == "masked"
    position = position_menu(scene, view, "Masked token" if masked else "Predicted after")
    choosing.token_boxes(130)
    return position


def quantity_menu(view: Why) -> None:
    """Draw the menu of the decomposed quantity; a difference is one of logits."""
    both = bool(view.against.strip())
    options = choosing.Look(displayed="logit" if both else view.quantity, disabled=both)
    choosing.menu("quantity", "Decompose", TITLES["quantities"], **options)


def position_menu(scene: Scene, view: Why, label: str) -> int:
    """Draw the menu of the token that the page is about; return its position.

    Until one is chosen the page is about a word. A causal model predicts what follows the text, or
    its last word where a full stop or another sign ends it. A masked model predicts its first gap,
    else the last word, and never tokens such as [SEP].
    """
    loaded = model(scene)
    masked, gap = objective(loaded.network) == "masked", loaded.tokenizer.mask_token_id
    tokens = [token for token in scene.record.tokens if not token.segment]
    offered = words.position_names(first_labels(scene))
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
    position = view.position if view.position in offered else default
    choosing.menu("position", label, offered, displayed=position, width=170)
    return position


def whole_and_parts(
    attribution: LogitAttribution | ScoreAttribution | TaskAttribution, name: str
) -> None:
    """Write a quantity, the sum of its parts, and what rounding left."""
    sums = {"sum": attribution.sum(), "rest": abs(attribution.remainder)}
    st.markdown(TEXTS("targets.sum", name=plain(name), value=attribution.value, **sums))


def draw_heads(
    values: NDArray[np.floating], view: Why, title: str, unit: str = "", *, key: str, **shown: Any
) -> None:
    """Draw a signed number of each head; a click chooses the head. `shown` is for the figure."""
    options: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    figure = head_changes(values, title, unit, diverging=True, selected=view.chosen, **options)
    figures.show(figure, key=key, on_click=words.choose, **shown)


def signed(value: SupportsFloat) -> str:
    """Write a share with its sign, short.

    >>> signed(-0.12345), signed(float("nan"))
    ('−0.123', 'not defined')
    """
    return words.format_number(value, signed=True)
