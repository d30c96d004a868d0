"""A head's numbers on Heads: those of a sentence among those that it has over a study."""

from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import percentiles, scores_of_head
from mha_viz.ui.run import memory
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state.views import DEFAULT
from tests.making.comparing import near
from tests.ui.compare_app import check
from tests.ui.heads_app import brought, heads_page

TEXT = " ".join(["The"] * 16)
PLACE = (1, 2)


@pytest.fixture(scope="module")
def key():
    """Texts whose study by tiny-bert is finished, on a server where Corpus has been opened."""
    memory.has_studies.set()
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
