"""The four spaces of a head over tokens of a study: queries, keys, values and outputs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from mha_viz.circuits.attribution.head_spaces import spaces_of_heads
from mha_viz.core.compare.token_spaces import HeadSpaces
from mha_viz.corpus.query.study import Study
from mha_viz.paper.space_figures import (
    colourings,
    space_panels,
    spaces_figure,
    token_colours,
)
from mha_viz.ui.many_texts import TEXTS
from mha_viz.ui.many_texts.heads_link import heads_params
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import MAX_COMPONENTS, ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.token_spaces import payload_of, token_spaces
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words

N_TEXTS = 400  # that tokens are drawn from
_TOGETHER = 64  # heads: of a model with more, those of one layer are made at once
_AT_ONCE = 10.0  # seconds of work that begins without a click

Head = tuple[int, int]


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the spaces on their first two components, and below on the two that are chosen."""
    _open_token(view)
    spaces = _spaces(study, view)
    if spaces is None:
        return
    st.caption(" ".join((TEXTS("spaces.about"), *spaces.notes)))
    last = spaces.coordinates.shape[-1] - 1
    chosen = min(view.component_x - 1, last), min(view.component_y - 1, last)
    pairs = (0, min(1, last)), chosen
    colours = token_colours(study, spaces, view.colouring)
    figure = spaces_figure(spaces, colours, *pairs)
    panels = [panel for pair in pairs for panel in space_panels(spaces, pair)]
    payload = payload_of(spaces, panels, colours, figure.name)
    choose = partial(_choose, spaces)
    token_spaces(payload, len(spaces.tokens), key="many-spaces", on_open=choose)
    about: dict[str, Any] = {"table": figure.table, "caption": figure.caption}
    about |= {"name": figure.name, "how_to_read": TEXTS("figures.spaces")}
    drawn = partial(figure.draw, dark=look.dark())
    figures.explain(drawn, key="many-spaces-files", **about)


def controls(study: Study) -> None:
    """Draw what tokens are coloured by, and the components of the second picture."""
    choosing.menu("colouring", "Colour", colourings(study), width=180)
    components = {number: f"PC {number}" for number in range(1, MAX_COMPONENTS + 1)}
    choosing.menu("component_x", "Second row: across", components, width=170)
    choosing.menu("component_y", "Up", components, width=90)


def _choose(spaces: HeadSpaces, token: int) -> None:
    """Note the clicked token; the run that follows opens it."""
    session().opened_token = spaces.texts[int(spaces.text[token])], int(spaces.position[token])


def _open_token(view: ManyTexts) -> None:
    """Open a token that was clicked: its text in Heads, on this head."""
    clicked, session().opened_token = session().opened_token, None
    if clicked is not None:
        text, position = clicked
        params = heads_params(view, text, view.chosen, position)
        st.switch_page(session().pages["heads"], query_params=params)


def _spaces(study: Study, view: ManyTexts) -> HeadSpaces | None:
    """Return the spaces of the chosen head; None until long work is requested."""
    model = memory.model(*view.checkpoint)
    numbers = model.numbers_of(model.parts[0])
    few = study.n_layers * study.n_heads <= _TOGETHER
    layers = numbers if few else [numbers[view.layer]]
    heads = [(layer, head) for layer in layers for head in range(study.n_heads)]
    texts = study.sample_texts(N_TEXTS)
    n_tokens = study.n_tokens * len(texts) // max(study.n_texts, 1)
    seconds = heavy.seconds(model, n_tokens)
    key = "head spaces", view.checkpoint, study.folder, tuple(layers)

    def run() -> dict[Head, HeadSpaces]:
        call = partial(spaces_of_heads, heavy.model_of(view.checkpoint), texts, heads)
        work = heavy.work(call, key, seconds)
        spaces: list[HeadSpaces] = progress.done(
            work, "stop_spaces", "Running texts …", partial(progress.of_total, of=" texts")
        )
        return {(space.layer, space.head): space for space in spaces}

    head_spaces = memory.cache().find(key)
    if head_spaces is None and seconds > _AT_ONCE:
        why = TEXTS("spaces.long", n=words.count(len(texts), "text"), about=progress.about(seconds))
        head_spaces = progress.on_request("spaces", key, run, why, "Run the texts", "run_spaces")
    if head_spaces is None and seconds <= _AT_ONCE:
        head_spaces = memory.cache().get(key, run, _size)
    return None if head_spaces is None else head_spaces[numbers[view.layer], view.head]


def _size(head_spaces: Mapping[Head, HeadSpaces]) -> int:
    return sum(space.coordinates.nbytes + space.received.nbytes for space in head_spaces.values())
