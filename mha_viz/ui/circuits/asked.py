"""Which prediction the page takes apart, and what it says where that cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import SupportsFloat, TypeVar

import streamlit as st

from mha_viz.circuits.logit_attribution import LogitAttribution
from mha_viz.circuits.score_attribution import ScoreAttribution
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, MhaVizError, NotKeptError
from mha_viz.prediction.logits import check_predicts
from mha_viz.ui.session import memory, reporting, state
from mha_viz.ui.session.one_thread import threads_for
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.views import QUANTITIES
from mha_viz.ui.widgets import choosing, words
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.theme import format_number

T = TypeVar("T")
FROZEN = (
    "Norms keep the scale that they had in this run: with it they are linear, and parts add up. "
    "A part that makes the norm’s scale smaller is not charged for it."
)


@contextmanager
def known_parts() -> Iterator[None]:
    """What a family does not allow is told as information, what somebody can mend as an error."""
    try:
        yield
    except (AttentionUnavailableError, NotKeptError) as refusal:
        st.info(plain(str(refusal)), icon=":material/block:")
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")


def computed(scene: Scene, *what: Hashable, make: Callable[[AttentionModel], T], size: int) -> T:
    """Something that a model makes of the scene's text, made once; see `reporting.remembered`."""
    model = memory.model(*state.current().checkpoint)

    def run() -> T:
        with threads_for(model, scene.text):
            return make(model)

    return reporting.remembered(scene, "circuits", *what, make=run, size=size)


def first_labels(scene: Scene) -> list[str]:
    """The tokens of the first text."""
    record = scene.record
    pairs = zip(record.tokens, record.labels, strict=True)
    return [label for token, label in pairs if not token.segment]


def pickers(scene: Scene, quantity: bool = True) -> int:
    """Menus for what is predicted, where, and against what; returns the place.

    Args:
        scene: what the page shows.
        quantity: whether there is a choice of what is taken apart.

    Raises:
        AttentionUnavailableError: the model predicts no tokens.
    """
    model, labels = memory.model(*state.current().checkpoint), first_labels(scene)
    masked = check_predicts(model.network) == "masked"
    if state.current().place >= len(labels):
        state.change(place=-1)
    view = state.current()
    place = view.place if view.place >= 0 else _telling_place(scene, model, masked)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu(
            "place",
            "Masked and predicted" if masked else "Predicted after",
            words.places(labels),
            displayed=place,
            width=190,
        )
        for name, label, hint in (
            ("target", "Follow this token", "(the likeliest)"),
            ("against", "against this one", "(none)"),
        ):
            state.bound(name, st.text_input, label, width=160, placeholder=hint, max_chars=100)
        if quantity:
            choosing.menu(
                "quantity",
                "Taken apart",
                QUANTITIES,
                displayed="logit" if view.against.strip() else view.quantity,
                disabled=bool(view.against.strip()),
                width=190,
            )
    return place


def _telling_place(scene: Scene, model: AttentionModel, masked: bool) -> int:
    """The last token; of a masked model its first gap, else the last word."""
    tokens = [token for token in scene.record.tokens if not token.segment]
    if not masked:
        return len(tokens) - 1
    gaps = [i for i, token in enumerate(tokens) if token.id == model.tokenizer.mask_token_id]
    named = [i for i, token in enumerate(tokens) if token.text.isalnum() and not token.is_special]
    return next(iter(gaps), named[-1] if named else len(tokens) - 1)


def whole_and_parts(found: LogitAttribution | ScoreAttribution, name: str) -> None:
    """The whole, the sum of its parts, what rounding left of it, and what is frozen.

    Args:
        found: of which the parts are known.
        name: of the whole, in words.
    """
    st.markdown(
        f"The parts sum to **{format_number(found.sum())}**; {plain(name)} is "
        f"**{format_number(found.value)}** (difference {abs(found.remainder):.0e}, from rounding)."
    )
    st.caption(FROZEN)


def signed(value: SupportsFloat) -> str:
    """A share with its sign, short.

    >>> signed(-0.12345), signed(float("nan"))
    ('−0.123', 'not defined')
    """
    number = float(value)
    return words.UNDEFINED if number != number else f"{number:+.3g}".replace("-", "−")
