"""Heads by their weights alone: which reads which, which copies, and both circuits as tokens."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

import pandas as pd
import streamlit as st

from mha_viz.circuits.composition import head_vocabulary as vocabulary
from mha_viz.circuits.composition.head_pairs import KINDS, Composition, composition
from mha_viz.circuits.composition.ov_circuit import copying_scores, favoured_pairs
from mha_viz.circuits.composition.token_circuits import MAX_WORDS, token_matrices
from mha_viz.plots.bars import share_matrix
from mha_viz.ui.circuits import TEXTS, pairs, targets
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import THROUGH, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls, lazy_sections
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import progress, words

T = TypeVar("T")


def draw_composition(scene: Scene) -> None:
    """Draw the map of all pairs, and what Q-, K- and V-composition say of one."""
    choosing.segments("through", "The later head reads into", THROUGH)
    if pairs.lacks_pairs(scene):
        return
    kind = state.of(Circuits).through
    found = _composition(kind)
    zscore, n_heads = found.zscore.numpy(), found.n_heads
    pairs.chips("most_composed", "**Furthest from chance (z)**", zscore, n_heads)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        more, texts = {"score": found.score.numpy()}, TEXTS.figure("figures.composition", kind=kind)
        caption = words.settings(scene, f"{kind}-composition by weights")
        pairs.draw_map(scene, zscore, more=more, caption=caption, **texts)
    with right:
        _pair(pairs.shown_pair(zscore, n_heads))
        words.notes(found.notes)
        st.caption(TEXTS("composition.chance"))
    st.header("Who copies", anchor=False)
    with targets.known_parts():
        _copying(scene)


def _copying(scene: Scene) -> None:
    found = _of_weights(copying_scores, size=50_000)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        scores, caption = found.score.numpy(), words.settings(scene, "OV circuits by weights")
        table, texts = found.table(), TEXTS.figure("figures.copying")
        targets.draw_heads(scores, "Copying score", table=table, caption=caption, **texts)
    with right:
        layer, head = state.of(Circuits).chosen
        name, share = words.head_name(layer, head), float(found.positive_share[layer, head])
        score, z = (targets.signed(one[layer, head]) for one in (found.score, found.zscore))
        st.markdown(TEXTS("composition.copying", name=name, score=score, z=z, share=share))
        lazy_sections.in_expander(f"Tokens {name} favours", "favoured", _favoured)


def _favoured() -> None:
    layer, head = state.of(Circuits).chosen
    found = _of_weights(favoured_pairs, layer, head, size=20_000)
    pairs = found.pairs[["source", "destination", "strength"]]
    st.dataframe(pairs, hide_index=True, column_config=words.number_columns(pairs))
    error = "" if found.exact else f" ± {found.copied_error:.1%}"
    st.caption(TEXTS("composition.favoured", found=found, error=error))


def _composition(kind: str) -> Composition:
    model = targets.model()
    size = 8 * (model.n_layers * model.n_heads) ** 2  # two matrices of float32
    return _of_weights(composition, kind, size=size)


def _of_weights(function: Callable[..., T], *args: Hashable, size: int) -> T:
    """Return what follows from the weights alone, computed once for all texts."""

    def made() -> T:
        with st.spinner("Comparing weights …"):
            return function(targets.model(), *args)

    key: Hashable = (*state.of(Circuits).checkpoint, "circuits", function.__name__, *args)
    return memory.cache().get(key, made, lambda _: size)


def _pair(pair: pairs.Pair) -> None:
    st.header(pairs.named(pair), anchor=False)
    rows = []
    for kind in KINDS:
        found = _composition(kind)
        writer, reader = pairs.numbers(pair, found.n_heads)
        score, z = float(found.score[writer, reader]), float(found.zscore[writer, reader])
        numbers = (words.format_number(one) for one in (score, found.expected, z))
        rows.append((f"{kind}: {THROUGH[kind]}", *numbers))
    table = pd.DataFrame(rows, columns=["Read into", "Score", "By chance", "z"])
    st.table(table.set_index("Read into"))


CIRCUITS = TEXTS.labels("vocabulary.circuits")
ENDS = {"QK": ("query", "key"), "OV": ("looked at", "raised")}
N_OF_TEXT = 24  # words of the sentence that are compared until some are typed
AT_ONCE = 4.0  # seconds of work that begins without a click
RATE = 2 * 10**10  # multiplications in a second, of one thread


def draw_vocabulary(scene: Scene) -> None:
    """Draw the head's circuits. Not a fragment, as Stop must end what measures."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.head_menus(scene.record.n_layers, scene.record.n_heads)
        controls.open_in_heads()
    looks = TEXTS.control("listed", most=MAX_WORDS, n=N_OF_TEXT)
    state.bound("listed", st.text_input, **looks)
    name = words.head_name(*state.of(Circuits).chosen)
    _words(scene, name)
    found = _vocabulary()
    if found is None:
        return
    for circuit in found.circuits.values():
        st.header(TEXTS("vocabulary.title", circuit=CIRCUITS[circuit.name], name=name))
        given = scene, circuit, name
        look.beside([2, 3], partial(_token_pairs, *given), partial(_directions, *given))
    st.caption(TEXTS("vocabulary.tells", n=vocabulary.N_RANDOM))
    words.notes(found.notes)


def _words(scene: Scene, name: str) -> None:
    """Draw both circuits between the typed words, or those of the sentence."""
    view = state.of(Circuits)
    typed = tuple(word.strip(",") or word for word in view.listed.split())
    own = [token for token in scene.record.tokens if not token.segment]
    read = [token for token in own if not token.is_special] or own
    listed = typed or tuple(dict.fromkeys(token.id for token in read))[:N_OF_TEXT]
    matrices = _of_weights(token_matrices, *view.chosen, listed, size=16 * len(listed) ** 2)
    for column, (circuit, matrix) in zip(
        st.columns(2, gap="medium"), matrices.items(), strict=False
    ):
        with column:
            _matrix(scene, circuit, name, matrix)


def _matrix(scene: Scene, circuit: str, name: str, matrix: pd.DataFrame) -> None:
    labels, values = [*map(str, matrix)], matrix.to_numpy()
    texts, names = TEXTS.figure(f"figures.{circuit}", name=name), words.numbered(labels)
    drawn = share_matrix(values, labels, labels, title=texts["name"], side=480, dark=look.dark())
    table = words.by_tokens(values, names, names, corner=ENDS[circuit][0])
    figures.show(drawn, table=table, caption=words.settings(scene, name, circuit), **texts)


def _vocabulary() -> vocabulary.HeadVocabulary | None:
    """Return pairs and directions of the chosen head; None until long work is requested."""
    view = state.of(Circuits)
    model, key = targets.model(), (view.checkpoint, view.chosen)
    n_cells = 2 * (1 + vocabulary.N_RANDOM) * model.d_vocab**2
    seconds = n_cells * 2 * model.d_head / RATE

    def searched() -> vocabulary.HeadVocabulary:
        of_model = partial(
            vocabulary.head_vocabulary, heavy.model_of(view.checkpoint), *view.chosen
        )
        work = heavy.work(of_model, key, seconds)
        found: vocabulary.HeadVocabulary = progress.done(
            work, "stop_pairs", "Searching …", progress.of_total
        )
        return found

    if seconds <= AT_ONCE:
        return _of_weights(vocabulary.head_vocabulary, *view.chosen, size=50_000)
    why = TEXTS("vocabulary.long", n=f"{model.d_vocab:,}", about=progress.about(seconds))
    return progress.on_request("vocabulary", key, searched, why, "Find pairs", "find_pairs")


def _token_pairs(scene: Scene, circuit: vocabulary.VocabularyCircuit, name: str) -> None:
    first, second = ENDS[circuit.name]
    pairs = circuit.pairs.set_axis([first, second, *circuit.pairs.columns[2:]], axis=1)
    strongest = {one: pairs[one][0] for one in ("strength", "chance", "chance_low", "chance_high")}
    above = int((pairs["strength"] > pairs["chance_high"]).sum())
    numbers = {one: words.format_number(value) for one, value in strongest.items()}
    st.markdown(TEXTS("vocabulary.pairs", above=above, n=len(pairs), **numbers))
    _table(scene, pairs.iloc[:, :6], f"{circuit.name} of {name}: strongest pairs")


def _directions(scene: Scene, circuit: vocabulary.VocabularyCircuit, name: str) -> None:
    ends = dict(zip(circuit.directions.columns[:2], ENDS[circuit.name], strict=True))
    against = {f"{end}_opposite": f"{shown}, opposite" for end, shown in ends.items()}
    st.markdown(TEXTS("vocabulary.directions"))
    table = circuit.directions.rename(columns=ends | against)
    _table(scene, table, f"{circuit.name} of {name}: singular directions")


def _table(scene: Scene, table: pd.DataFrame, name: str) -> None:
    table = table.rename(columns=TEXTS.labels("vocabulary.columns"))
    key = name.partition(" ")[0] + name.rpartition(" ")[2]
    form = words.number_columns(table)
    st.dataframe(table, hide_index=True, column_config=form, key=f"{key}-shown")
    exports.table_file(table, key=key, name=name, caption=words.settings(scene, "by weights"))
