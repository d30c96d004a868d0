"""The page Many texts below the bar: what the study is, its atlas, and one of its five views.

Importing it imports torch, plotly, pyarrow and duckdb, so the page does it late.
"""

from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.atlas.atlas_files import atlas_zip
from mha_viz.core.metrics import LABELS
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.paper.report import answer
from mha_viz.ui.many_texts import (
    TEXTS,
    all_heads,
    change,
    find,
    fitting,
    grammar,
    measures,
    one_head,
    texts,
    two_studies,
)
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.studies import describe
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import TABS, ManyTexts
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import plain, stop_on_error

_NAMED = 3  # labels
_VIEWS = {
    "heads": all_heads.draw,
    "one": one_head.draw,
    "grammar": grammar.draw,
    "find": find.draw,
    "change": change.draw,
}


def draw(choice_of_texts: DeltaGenerator) -> None:
    """Draw the study of the chosen texts, or its progress."""
    with choice_of_texts:
        view = texts.choose(selection.of(ManyTexts))
    two_studies.fit(view)
    study = texts.study_of(view, "study")
    if study is not None:
        selection.number_layers(study.layer_numbers)
        _summary(study, view)
        _views(study)


@fragment
def _views(study: Study) -> None:
    """Draw the chosen view in a fragment: a click reruns nothing else on the page."""
    with stop_on_error():
        view = fitting.fit(study, selection.of(ManyTexts))
        with st.container(horizontal=True, vertical_alignment="center", key="tabs"):
            choosing.segments("tab", "View", TABS, label_visibility="collapsed")
            options: dict[str, Any] = {"width": 85, "label_visibility": "collapsed"}
            choosing.menu("layer", "Layer", choosing.layers(study.n_layers), **options)
            choosing.menu("head", "Head", choosing.numbered("H", study.n_heads), **options)
            menu = partial(_atlas, study, view)
            lazy_sections.in_popover("Atlas", ":material/public:", "atlas", menu)
        _VIEWS[view.tab](study, view)
        selection.push_url()


def _atlas(study: Study, view: ManyTexts) -> None:
    """Draw the button that makes the atlas, and once it is made the one that downloads it."""
    st.caption(TEXTS("atlas.menu"))
    key = ("atlas", view.checkpoint, str(study.folder))
    content = memory.cache().find(key)
    if content is None:
        button_slot = st.empty()
        if not button_slot.button("Make the atlas", icon=":material/play_arrow:", key="make-atlas"):
            return
        button_slot.empty()
        make = partial(atlas_zip, heavy.model_of(view.checkpoint), study.folder)
        work = heavy.work(make, key)
        content = progress.done(work, "stop-atlas", "Making the atlas …", progress.of_total)
        memory.cache().get(key, lambda: content, len)
    name = f"{downloads.safe_name(study.manifest['model']['name'], 'model')}_atlas.zip"
    icon = ":material/download:"
    downloads.download("Download the atlas", name, lambda: content, key="get-atlas", icon=icon)


def _summary(study: Study, view: ManyTexts) -> None:
    """Write what was studied, its results, and what was skipped or cut."""
    of = f"**{describe(study, view)}**, {study.n_tokens:,} tokens, {plain(view.model)}."
    how = f"Numbers are means over texts; a 95 % interval takes {study.unit_note}."
    few = ""
    if study.sql("SELECT count(low) AS n FROM heads")["n"].item() == 0:
        few = "For one text there is no interval and no label: it is an anecdote."
    sentences = " ".join(filter(None, (of, few, _labels(study), _best_relations(study))))
    st.markdown(sentences, help=plain(how))
    missing = study.notes
    if n_skipped := study.manifest["counts"]["n_skipped"]:
        first_skipped, reason = study.manifest["skipped"][0]
        skipped = count(n_skipped, "text")
        missing.insert(0, f"Skipped: {skipped}; the first is {first_skipped}: {reason}")
    if missing:
        st.warning(plain(" ".join(missing)), icon=":material/warning:")


def _labels(study: Study) -> str:
    """Say how many heads earn a label, which are the most frequent ones, and the surest head."""
    rows, n_all = study.labels, study.n_layers * study.n_heads
    if rows.empty:
        return ""
    n_labelled = len(rows.drop_duplicates(["layer", "head"]))
    counts = rows["label"].value_counts(sort=True)
    most = [f"{n} {LABELS[str(label)].title.lower()}" for label, n in counts.head(_NAMED).items()]
    surest = rows.sort_values("share_of_texts", kind="stable").iloc[-1]
    name = words.head_name(int(surest["layer"]), int(surest["head"]))
    title = LABELS[surest["label"]].title.lower()
    return (
        f"**{n_labelled} of {n_all} heads earn a label**: {', '.join(most)}; the surest is {name}, "
        f"{title} on {100 * surest['share_of_texts']:.0f} % of texts."
    )


def _best_relations(study: Study) -> str:
    if not study.has_trees or (best := measures.best_heads(study, "relations")).empty:
        return ""
    return answer(best, "relations", study.layer_numbers)
