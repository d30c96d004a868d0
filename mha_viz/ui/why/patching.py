"""Activation patching: the positions, layers and heads where one text's run decides."""

import re
from functools import partial
from itertools import combinations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.effects.patching_map import PatchingMap, patching_map
from mha_viz.core.layer_numbers import layer_names
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.bars import share_matrix
from mha_viz.ui.run import heavy
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import BEHAVIOURS, TITLES, Why
from mha_viz.ui.why import TEXTS, targets
from mha_viz.ui.why.effects import UNITS, PathSettings, say_clean, settings_of
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words

PATCHED = TEXTS.labels("patching.parts")
MOST_BESIDE = 12  # tokens of maps that stand beside each other
AT_ONCE = 4.0  # seconds of work that begins without a click
N_TRIED = 6  # longest words; two of them are swapped


def draw(scene: Scene, view: Why) -> None:
    """Draw a map for each part. Not a fragment, as Stop must end what measures."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        position = targets.pickers(scene, view)
    swapped = _two_swapped(targets.model(scene), scene, position)
    hint = f"(none: {swapped})" if swapped else ""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selection.bound("source", st.text_input, **TEXTS.control("corrupt", hint=hint))
        with choosing.more("patching-more"):
            choosing.menu("behaviour", "Effect on", BEHAVIOURS)
            choosing.segments("direction", "Patch", TITLES["directions"])
    corrupt = view.source.strip() or swapped
    if not corrupt:
        st.info(TEXTS("patching.no_source"))
        return
    patched = _maps(scene, view, settings_of(view, position, corrupt))
    if patched is not None:
        _draw(scene, view, corrupt, patched)


def _draw(scene: Scene, view: Why, corrupt: str, patched: dict[str, PatchingMap]) -> None:
    """Draw what was measured: layers by positions for each part, and heads."""
    *maps, heads = patched.values()
    say_clean(heads)
    st.markdown(TEXTS("patching.other", corrupt=heads.corrupt))
    if heads.refusal:
        st.caption(words.plain(heads.refusal))
    followed = " less ".join(f"“{token}”" for token in (heads.target, heads.against) if token)
    behaviour = f"{heads.metric} {followed}".strip()
    way = TITLES["directions"][heads.direction].lower()
    caption = words.settings(scene, behaviour, f"corrupted: {corrupt[:200]}", way)
    draw_maps = [partial(_map, patched_map, caption) for patched_map in maps]
    if len(heads.tokens) <= MOST_BESIDE:
        look.beside(len(maps), *draw_maps)
    else:
        for draw_map in draw_maps:
            draw_map()
    figures.reading(TEXTS("figures.patching.how_to_read"))
    _heads(heads, view, caption)
    st.caption(TEXTS("patching.tells"))


def _two_swapped(model: AttentionModel, scene: Scene, position: int) -> str:
    """Swap two long words of the text that the prediction reads; "" if tokens get more or fewer."""
    text = scene.text
    read = text[: scene.record.tokens[position].end] if model.causal else text
    by_word = {match[0].lower(): match for match in re.finditer(r"\w+", read)}
    longest = sorted(by_word.values(), key=lambda match: len(match[0]), reverse=True)[:N_TRIED]
    n_tokens = len(model.tokenizer(text)["input_ids"])
    for pair in combinations(longest, 2):
        first, last = sorted(pair, key=lambda match: match.start())
        between = text[first.end() : last.start()]
        swapped = text[: first.start()] + last[0] + between + first[0] + text[last.end() :]
        if len(model.tokenizer(swapped)["input_ids"]) == n_tokens:
            return swapped
    return ""


def _maps(scene: Scene, view: Why, settings: PathSettings) -> dict[str, PatchingMap] | None:
    """Return a map of each part; None until long work is requested."""
    n, model = len(scene.record.tokens), targets.model(scene)
    n_cells = model.n_layers * ((len(PATCHED) - 1) * n + model.n_heads)
    seconds = heavy.seconds(model, n_cells * n // 2)  # on average half of the layers are run
    texts = str(settings.corrupt), settings.metric

    def at_once(part: str) -> PatchingMap:
        arguments, tracked = (*texts, part, view.direction), settings.tracked
        return targets.of_text(scene, patching_map, *arguments, size=100_000, **tracked)

    def measured(part: str) -> PatchingMap:
        arguments = scene.text, *texts, part, view.direction
        model = heavy.model_of(view.checkpoint)
        function = partial(patching_map, model, *arguments, **settings.tracked)
        key = view.checkpoint, arguments, settings
        work = heavy.work(function, key, seconds / len(PATCHED))
        of_cells = partial(progress.of_total, of=f" runs: {PATCHED[part]}")
        result: PatchingMap = progress.done(work, f"stop_patching_{part}", "Measuring …", of_cells)
        return result

    if seconds <= AT_ONCE:
        return {part: at_once(part) for part in PATCHED}
    return progress.on_request(
        *("patching", (scene.key, settings, view.direction)),
        lambda: {part: measured(part) for part in PATCHED},
        TEXTS("patching.long", n_cells=f"{n_cells:,}", about=progress.about(seconds)),
        *("Measure", "measure_patching"),
    )


def _shown(patched: PatchingMap) -> tuple[NDArray[np.float64], str]:
    """Return what a map shows, and its unit: shares, or effects where shares are refused."""
    if patched.refusal:
        return patched.effect, UNITS[patched.metric]
    return 100 * patched.share, "%"


def _map(patched: PatchingMap, caption: str) -> None:
    (values, unit), layers = (
        _shown(patched),
        layer_names(len(patched.effect), patched.layer_numbers),
    )
    texts = TEXTS.figure("figures.patching", part=PATCHED[patched.part])
    texts["key"] = f"patching_{patched.part}"
    axes = layers, patched.positions
    drawn = share_matrix(values, *axes, unit, title=texts["name"], dark=look.dark())
    figures.show(drawn, table=patched.table(), caption=caption, explained=False, **texts)


def _heads(patched: PatchingMap, view: Why, caption: str) -> None:
    (values, unit), texts = _shown(patched), TEXTS.figure("figures.patching_heads")
    title, table = PATCHED["heads"], patched.table()
    targets.draw_heads(values, view, title, unit, table=table, caption=caption, **texts)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{words.head_name(*view.chosen)}**", width="content")
        choosing.open_in_heads()
