"""Words of a head: its QK and OV circuits between words, and over the whole vocabulary."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeVar, cast

import pandas as pd
import streamlit as st

from mha_viz.circuits.composition.head_vocabulary import (
    N_RANDOM,
    HeadVocabulary,
    VocabularyCircuit,
    head_vocabulary,
)
from mha_viz.circuits.composition.token_circuits import MAX_WORDS, token_matrices
from mha_viz.core.record.attention_record import Token
from mha_viz.plots.bars import share_matrix
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import Shared
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import notes, number_columns
from mha_viz.ui.widgets.messages.words import format_number, plain

T = TypeVar("T")
CIRCUITS = TEXTS.labels("head_words.circuits")
ENDS = {"QK": ("query", "key"), "OV": ("looked at", "raised")}
N_OF_TEXT = 24  # words of the sentence that are compared until some are typed
AT_ONCE = 4.0  # seconds of work that begins without a click
RATE = 2 * 10**10  # multiplications in a second, of one thread


def draw(view: Shared, text_tokens: Sequence[Token], source: str) -> None:
    """Draw the chosen head's QK and OV circuits: between words, over the vocabulary, by direction.

    Words are those that the view lists, or the first of a text's `own` tokens. `source` says in
    files what is drawn. Raises AttentionUnavailableError: a family whose weights are not known.
    """
    options = TEXTS.control("listed", most=MAX_WORDS, n=N_OF_TEXT)
    selection.bound("listed", st.text_input, **options)
    _words(view, text_tokens, source)
    vocabulary = _vocabulary(view)
    if vocabulary is None:
        return
    name = words.head_name(*view.chosen)
    for circuit in vocabulary.circuits.values():
        st.header(TEXTS("head_words.title", circuit=CIRCUITS[circuit.name], name=name))
        drawn = circuit, name, source
        look.beside([2, 3], partial(_token_pairs, *drawn), partial(_directions, *drawn))
    st.caption(TEXTS("head_words.tells", n=N_RANDOM))
    notes(vocabulary.notes)


def of_weights(
    checkpoint: tuple[str, str, str], function: Callable[..., T], *args: Hashable, size: int
) -> T:
    """Return what follows from a model's weights alone, computed once for all texts."""

    def compute() -> T:
        with st.spinner("Comparing weights …"):
            return function(memory.model(*checkpoint), *args)

    key: Hashable = (*checkpoint, "circuits", function.__name__, *args)
    return memory.cache().get(key, compute, lambda _: size)


def _words(view: Shared, text_tokens: Sequence[Token], source: str) -> None:
    """Draw both circuits between the typed words, or those of the text."""
    typed = tuple(word.strip(",") or word for word in view.listed.split())
    read = [token for token in text_tokens if not token.is_special] or text_tokens
    listed = typed or tuple(dict.fromkeys(token.id for token in read))[:N_OF_TEXT]
    size = 16 * len(listed) ** 2
    matrices = of_weights(view.checkpoint, token_matrices, *view.chosen, listed, size=size)
    drawn = [
        partial(_matrix, circuit, words.head_name(*view.chosen), matrix, source)
        for circuit, matrix in matrices.items()
    ]
    look.beside(max(2, len(drawn)), *drawn, *[st.empty] * (2 - len(drawn)))


def _matrix(circuit: str, name: str, matrix: pd.DataFrame, source: str) -> None:
    labels, values = [*map(str, matrix)], matrix.to_numpy()
    texts, names = TEXTS.figure(f"figures.{circuit}", name=name), words.numbered(labels)
    drawn = share_matrix(values, labels, labels, title=texts["name"], side=480, dark=look.dark())
    table = words.by_tokens(values, names, names, corner=ENDS[circuit][0])
    figures.show(drawn, table=table, caption=f"{source} · {name} · {circuit}", **texts)


def _vocabulary(view: Shared) -> HeadVocabulary | None:
    """Return pairs and directions of the chosen head; None until long work is requested."""
    model, key = memory.model(*view.checkpoint), (view.checkpoint, view.chosen)
    n_cells = 2 * (1 + N_RANDOM) * model.d_vocab**2
    seconds = n_cells * 2 * model.d_head / RATE

    def searched() -> HeadVocabulary:
        of_model = partial(head_vocabulary, heavy.model_of(view.checkpoint), *view.chosen)
        work = heavy.work(of_model, key, seconds)
        return cast(
            HeadVocabulary,
            progress.done(work, "stop_pairs", "Searching …", progress.of_total),
        )

    if seconds <= AT_ONCE:
        return of_weights(view.checkpoint, head_vocabulary, *view.chosen, size=50_000)
    why = TEXTS("head_words.long", n=f"{model.d_vocab:,}", about=progress.about(seconds))
    return progress.on_request("vocabulary", key, searched, why, "Find pairs", "find_pairs")


def _token_pairs(circuit: VocabularyCircuit, name: str, source: str) -> None:
    first, second = ENDS[circuit.name]
    pairs = circuit.pairs.set_axis([first, second, *circuit.pairs.columns[2:]], axis=1)
    strongest = {
        column: pairs[column][0] for column in ("strength", "chance", "chance_low", "chance_high")
    }
    above = int((pairs["strength"] > pairs["chance_high"]).sum())
    numbers = {column: words.format_number(value) for column, value in strongest.items()}
    st.markdown(TEXTS("head_words.pairs", above=above, n=len(pairs), **numbers))
    _table(pairs.iloc[:, :6], f"{circuit.name} of {name}: strongest pairs", source)


def _directions(circuit: VocabularyCircuit, name: str, source: str) -> None:
    ends = dict(zip(circuit.directions.columns[:2], ENDS[circuit.name], strict=True))
    against = {f"{end}_opposite": f"{shown}, opposite" for end, shown in ends.items()}
    st.markdown(TEXTS("head_words.directions"))
    table = circuit.directions.rename(columns=ends | against)
    title = f"{circuit.name} of {name}: singular directions"
    _table(table, title, source, show=_wrapped)


def _wrapped(table: pd.DataFrame, key: str) -> None:
    """Draw a table whose cells take several lines: lists of tokens are long."""
    cells = table.map(lambda cell: plain(cell) if isinstance(cell, str) else format_number(cell))
    with st.container(key=key):
        st.table(cells.set_index(cells.columns[0]))


def _sortable(table: pd.DataFrame, key: str) -> None:
    form = number_columns(table)
    st.dataframe(table, hide_index=True, column_config=form, key=key)


def _table(
    table: pd.DataFrame,
    name: str,
    source: str,
    show: Callable[[pd.DataFrame, str], None] = _sortable,
) -> None:
    table = table.rename(columns=TEXTS.labels("head_words.columns"))
    key = name.partition(" ")[0] + name.rpartition(" ")[2]
    show(table, f"{key}-shown")
    downloads.table_file(table, key=key, name=name, caption=f"{source} · by weights")
