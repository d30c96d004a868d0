"""A head's QK and OV circuits as tokens: chosen words, strongest pairs, singular directions."""

from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.circuits.weights.head_vocabulary import (
    N_RANDOM,
    HeadVocabulary,
    VocabularyCircuit,
    head_vocabulary,
)
from mha_viz.circuits.weights.token_circuits import MAX_WORDS, token_matrices
from mha_viz.plots.bars import share_matrix
from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.circuits.composition import of_weights
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

CIRCUITS = TEXTS.labels("vocabulary.circuits")
ENDS = {"QK": ("query", "key"), "OV": ("looked at", "raised")}
N_OF_TEXT = 24  # words of the sentence that are compared until some are typed
MAX_TYPED = 600  # letters
AT_ONCE = 4.0  # seconds of work that begins without a click
RATE = 2 * 10**10  # multiplications in a second, of one thread


def draw(scene: Scene) -> None:
    """Draw the head's circuits. Not a fragment, as Stop must end what measures."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.head_menus(scene.record.n_layers, scene.record.n_heads)
        controls.open_in_explore()
    hint = TEXTS("vocabulary.hint", n=N_OF_TEXT)
    label = TEXTS("vocabulary.words", most=MAX_WORDS)
    state.bound("listed", st.text_input, label, placeholder=hint, max_chars=MAX_TYPED)
    name = head_name(*state.of(Circuits).chosen)
    _words(scene, name)
    found = _vocabulary()
    if found is None:
        return
    for circuit in found.circuits.values():
        st.header(TEXTS("vocabulary.title", circuit=CIRCUITS[circuit.name], name=name))
        look.beside(
            [2, 3],
            partial(_pairs, scene, circuit, name),
            partial(_directions, scene, circuit, name),
        )
    st.caption(TEXTS("vocabulary.tells", n=N_RANDOM))
    for note in found.notes:
        st.caption(plain(note))


def _words(scene: Scene, name: str) -> None:
    """Draw both circuits between the typed words, or those of the sentence."""
    view = state.of(Circuits)
    typed = tuple(word.strip(",") or word for word in view.listed.split())
    own = [token for token in scene.record.tokens if not token.segment]
    read = [token for token in own if not token.is_special] or own
    listed = typed or tuple(dict.fromkeys(token.id for token in read))[:N_OF_TEXT]
    matrices = of_weights(
        *("token_matrices", view.chosen, listed),
        make=lambda model: token_matrices(model, *view.chosen, listed),
        size=16 * len(listed) ** 2,
    )
    drawn = [partial(_matrix, scene, circuit, name, one) for circuit, one in matrices.items()]
    look.beside(2, *drawn, *[lambda: None] * (2 - len(drawn)))


def _matrix(scene: Scene, circuit: str, name: str, matrix: pd.DataFrame) -> None:
    labels, values = [*map(str, matrix)], matrix.to_numpy()
    texts = TEXTS.figure(f"figures.{circuit}", name=name)
    figures.show(
        share_matrix(values, labels, labels, title=texts["name"], side=480, dark=look.dark()),
        table=words.by_tokens(
            *(values, words.numbered(labels), words.numbered(labels)), corner=ENDS[circuit][0]
        ),
        caption=words.settings(scene, name, circuit),
        **texts,
    )


def _vocabulary() -> HeadVocabulary | None:
    """Return pairs and directions of the chosen head; None until long work is requested."""
    view = state.of(Circuits)
    model, key = memory.model(*view.checkpoint), (view.checkpoint, view.chosen)
    n_cells = 2 * (1 + N_RANDOM) * model.d_vocab**2
    seconds = n_cells * 2 * model.d_head / RATE
    if seconds <= AT_ONCE:
        return of_weights(
            *("head_vocabulary", view.chosen),
            make=lambda model: head_vocabulary(model, *view.chosen),
            size=50_000,
        )
    found: HeadVocabulary | None = progress.results("vocabulary").get(key)
    if found is None:
        st.info(TEXTS("vocabulary.long", n=f"{model.d_vocab:,}", about=progress.about(seconds)))
        play = ":material/play_arrow:"
        if not st.button("Find pairs", icon=play, key="find_pairs", type="primary"):
            return None
        of_model = partial(head_vocabulary, heavy.model_of(view.checkpoint), *view.chosen)
        work = heavy.work(of_model, key, seconds)
        found = progress.done(work, "stop_pairs", "Searching …", progress.of_total)
        progress.keep("vocabulary", key, found)
        st.rerun()
    return found


def _pairs(scene: Scene, circuit: VocabularyCircuit, name: str) -> None:
    first, second = ENDS[circuit.name]
    pairs = circuit.pairs.set_axis([first, second, *circuit.pairs.columns[2:]], axis=1)
    strongest = {one: pairs[one][0] for one in ("strength", "chance", "chance_low", "chance_high")}
    above = int((pairs["strength"] > pairs["chance_high"]).sum())
    numbers = {one: format_number(value) for one, value in strongest.items()}
    st.markdown(TEXTS("vocabulary.pairs", above=above, n=len(pairs), **numbers))
    _table(scene, pairs.iloc[:, :6], f"{circuit.name} of {name}: strongest pairs")


def _directions(scene: Scene, circuit: VocabularyCircuit, name: str) -> None:
    ends = dict(zip(circuit.directions.columns[:2], ENDS[circuit.name], strict=True))
    against = {f"{end}_opposite": f"{shown}, opposite" for end, shown in ends.items()}
    st.markdown(TEXTS("vocabulary.directions"))
    table = circuit.directions.rename(columns=ends | against)
    _table(scene, table, f"{circuit.name} of {name}: singular directions")


def _table(scene: Scene, table: pd.DataFrame, name: str) -> None:
    table = table.rename(columns=TEXTS.labels("vocabulary.columns"))
    key = name.partition(":")[0].partition(" ")[0] + name.rpartition(" ")[2]
    numbers = table.select_dtypes("number").columns
    form = {str(one): st.column_config.NumberColumn(format="%.3g") for one in numbers}
    st.dataframe(table, hide_index=True, width="stretch", column_config=form, key=f"{key}-shown")
    exports.table_file(table, key=key, name=name, caption=words.settings(scene, "by weights"))
