"""A head's numbers on Heads: those of a sentence among those that it has over a study."""

from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import percentiles, scores_of_head
from mha_viz.corpus.run.sample_study import sample_study
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state.views import DEFAULT
from tests.making.comparing import near
from tests.ui.compare_app import check
from tests.ui.heads_app import brought, heads_page

TEXT = " ".join(["The"] * 16)
PLACE = (1, 2)


@pytest.fixture(scope="module")
def key():
    """Texts whose study by tiny-bert is finished, on this server."""
    texts = b"\n".join(b"The cat sat on mat number %d." % i for i in range(40))
    key = studies().add_texts(texts, "")
    view = replace(DEFAULT, corpus=key)
    studies().begin(view, mv.load("tiny-bert"))
    studies().find(view).wait()
    return key


def test_each_number_says_on_how_many_texts_the_head_has_less_or_more(key):
    app = heads_page(text=TEXT, layer=str(PLACE[0]), head=str(PLACE[1]), corpus=key, show="numbers")
    check(app)
    study = studies().finished(replace(DEFAULT, corpus=key))
    report = mv.head_report(mv.load("tiny-bert").trace(TEXT))
    here = report.set_index(["layer", "head"]).loc[PLACE]
    rows = scores_of_head(study, *PLACE)
    found = percentiles(rows, {name: here[name] for name in rows if name in here})
    sent = brought(app, "numbers")
    said = {row["key"]: row for row in sent["rows"] if "key" in row}
    for metric, row in found.drop("n_tokens", errors="ignore").iterrows():
        if np.isfinite(row["median"]):
            assert said[metric]["median"] == near(row["median"])
        for side, word in (("lower", "higher"), ("higher", "lower")):
            if row["n_texts"] and row[side] == 1:
                assert word in said[metric]["among"]
    assert (found["higher"] == 1).any() or (found["lower"] == 1).any()
    assert str(study.n_texts) in sent["texts"] and sent["unusual"]


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_a_shipped_model_is_compared_with_its_own_study(model):
    sent = brought(heads_page(model=model, layer="1", head="2", show="numbers"), "numbers")
    study = sample_study(mv.load(model))
    kinds = study.profile_by("kind").query("layer == 1 and head == 2")
    assert [name for name, _ in sent["general"]["kinds"]] == list(kinds["kind"])
    assert [weight for _, weight in sent["general"]["kinds"]] == near(list(kinds["weight"]))
    labels = study.labels.query("layer == 1 and head == 2")
    assert [label["low"] for label in sent["general"]["labels"]] == near(list(labels["low"]))
    assert sent["texts"] and any(row.get("among") for row in sent["rows"])
