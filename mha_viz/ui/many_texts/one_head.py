"""One head over many texts: what it does, where it looks, its texts, its spaces and its words."""

from collections import Counter
from functools import partial

import streamlit as st

from mha_viz.corpus.query.study import Study
from mha_viz.paper import figures
from mha_viz.paper.figures import source_line
from mha_viz.paper.head_sentence import head_sentence
from mha_viz.paper.report import titled
from mha_viz.text.encoding import encode_texts
from mha_viz.ui.heads import head_words
from mha_viz.ui.many_texts import TEXTS, deciles, measures, spaces
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.run import memory
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import FACETS, ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, plain

N_SAMPLED = 100  # texts in which tokens are counted


def draw(study: Study, view: ManyTexts) -> None:
    """Draw a sentence of numbers about the chosen head, and one of its facets."""
    _controls(study, view)
    relations = measures.relation_scores(study) if study.has_trees else None
    st.markdown(plain(head_sentence(study, view.chosen, relations)))
    if view.facet == "examples" and not study.has_texts:
        st.info(TEXTS("deciles.no_texts"))
        return
    facets = {
        "profile": _profile,
        "examples": deciles.draw,
        "spaces": spaces.draw,
        "words": _words,
    }
    with continue_on_error():
        facets[view.facet](study, view)


def _controls(study: Study, view: ManyTexts) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.segments("facet", "Facet", FACETS, label_visibility="collapsed")
        if view.facet in ("profile", "examples"):
            measures.score_menu(study, view)
            selection.bound("typed", st.text_input, "Your text", **TEXTS.control("typed"))
        if view.facet == "examples":
            with choosing.more("examples-more"):
                selection.bound("any_length", st.toggle, "Of any length")
        if view.facet == "spaces":
            spaces.controls(study)


def _words(study: Study, view: ManyTexts) -> None:
    """Draw the head's circuits: between frequent tokens of the texts, and over the vocabulary."""
    model = memory.model(*view.checkpoint)
    sample = study.sample_texts(N_SAMPLED)
    texts = (encode_texts(model.stored_reader, text)[0] for text in sample)
    tokens = [token for encoded in texts for token in encoded.tokens]
    counts = Counter(token.id for token in tokens if not token.is_special)
    of_id = {token.id: token for token in tokens}
    frequent = [of_id[number] for number, _ in counts.most_common()]
    head_words.draw(view, frequent or tokens, source_line(study))


def _profile(study: Study, view: ManyTexts) -> None:
    """Draw where the head's weight goes and how its score is spread, and its labels."""
    profiles = [partial(_weights, study, view, axis) for axis in figures.PROFILES]
    look.beside([4, 3, 3], *profiles, partial(_histogram, study, view))
    rows = figures.of_head(study.labels, view.chosen)
    if not rows.empty:
        table = titled(rows, study.layer_numbers).drop(columns="Head").set_index("Label")
        st.table(table.map(words.format_number))


def _weights(study: Study, view: ManyTexts, axis: str) -> None:
    show(figures.profile(study, axis, view.chosen), axis)


def _histogram(study: Study, view: ManyTexts) -> None:
    metric, mark = measures.score_metric(view), None
    if (measured := deciles.typed_text(view)) is not None:
        value = measured.score(metric, view.chosen)
        mark = value if value == value else None
    figure = figures.histogram(study, metric, view.chosen, mark)
    if figure is None:
        title, name = measures.score_title(view), words.head_name(*view.chosen)
        st.markdown(f"{title} is defined on no text for {name}.")
    else:
        show(figure, "histogram")
