"""The study of two hundred texts beside a plain loop over them, number by number."""

import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.treebank.trees import read_conllu, sample_lines
from tests.making.comparing import close

N_TEXTS = 200
KEPT = ("pattern", "z", "value")


@pytest.fixture(scope="module")
def bert() -> mv.AttentionModel:
    """In float64, so that a text runs alike by itself and in a batch; records are float32."""
    model = mv.load("tiny-bert")
    model.network.double()
    yield model
    model.network.float()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    known = [read.sentence.text for read in read_conllu(sample_lines())]
    backwards = [" ".join(reversed(text.split())) for text in known]
    return [*known, *backwards][:N_TEXTS]


@pytest.fixture(scope="module")
def study(bert, texts, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return mv.study(bert, texts, tmp_path_factory.mktemp("study") / "out")


@pytest.fixture(scope="module")
def records(bert, texts) -> list[mv.AttentionRecord]:
    return [bert.trace(text, keep=KEPT) for text in texts]


def test_every_mean_is_that_of_the_texts_reports(study: mv.Study, records) -> None:
    reports = pd.concat([mv.head_report(record) for record in records])
    heads = study.heads
    asked = heads["metric"].unique()
    assert len(asked) > 12 and study.n_texts == N_TEXTS
    for metric in asked:
        by_head = reports.groupby(["layer", "head"])[metric]
        rows = heads[heads["metric"] == metric].set_index(["layer", "head"])
        close(rows["mean"], by_head.mean())
        close(rows["std"], by_head.std())
        assert rows["n_texts"].tolist() == by_head.count().tolist()
