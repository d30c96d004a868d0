"""The sentences on top of all views of a study: what it is, and what it finds."""

import streamlit as st

from mha_viz.core.metrics import LABELS
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.paper.report import answer
from mha_viz.ui.many_texts import measures
from mha_viz.ui.run.studies import describe
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain

_NAMED = 3  # labels


def draw(study: Study, view: ManyTexts) -> None:
    """Say what was studied and what it shows, and what was skipped, left out or cut."""
    of = f"**{describe(study, view)}**, {study.n_tokens:,} tokens, {words.plain(view.model)}."
    how = f"Numbers are means over texts; a 95 % interval takes {study.unit_note}."
    few = ""
    if study.sql("SELECT count(low) AS n FROM heads")["n"].item() == 0:
        few = "For one text there is no interval and no label: it is an anecdote."
    sentences = " ".join(filter(None, (of, few, _labels(study), _best(study))))
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


def _best(study: Study) -> str:
    """Say how many relations of the gold trees have a head that beats its baselines."""
    if not study.has_trees or (best := measures.best_heads(study, "relations")).empty:
        return ""
    return answer(best, "relations", study.layer_numbers)
