"""Means, pairs, profile and labels of a study against the same from the single texts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.measure import text_baselines
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS, interval, jackknife
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.statistics.labels import corpus_labels
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.report import KEEP, report
from tests.corpus.small_studies import TEXTS
from tests.making.comparing import near
from tests.making.trees import sample


@pytest.fixture(scope="module")
def reports(bert):
    """The report of each text by itself, as people get it without a study."""
    records = [bert.trace(text, keep=KEEP) for text in TEXTS]
    return [(record, mv.head_report(record)) for record in records]


def test_every_mean_is_that_of_the_single_reports(made: Study, reports) -> None:
    heads = made.heads
    assert heads.metric.nunique() > 12
    for metric in heads.metric.unique():
        single = [table[metric].to_numpy() for _, table in reports if metric in table]
        ours = heads[heads.metric == metric]
        ends = interval(jackknife(np.transpose(single), np.ones((32, len(single)))))
        low, high = (np.clip(end, *METRICS[metric].limits) for end in ends)
        assert ours["low"].to_numpy() == near(low) and ours["high"].to_numpy() == near(high)
        assert ours["mean"].to_numpy() == near(np.mean(single, axis=0))
        assert ours["std"].to_numpy() == near(np.std(single, axis=0, ddof=1))
        assert (ours["n_texts"] == len(single)).all()
        assert ours["q50"].to_numpy() == near(np.median(single, axis=0))


def test_means_of_the_untrained_copy_and_of_chance_are_those_of_single_texts(made, bert) -> None:
    copy = untrained_copy(bert)
    untrained, chance = (made.sql(f"FROM {name}") for name in ("untrained_heads", "chance_layers"))
    for metric in ("entropy", "distance", "output_norm"):
        tables = [mv.head_report(copy.trace(text, keep=KEEP)) for text in TEXTS]
        ours = untrained[untrained.metric == metric].sort_values(["layer", "head"])
        assert ours["mean"].to_numpy() == near(np.mean([t[metric] for t in tables], 0))
        known = [text_baselines(bert.trace(text, keep=KEEP)).get(metric) for text in TEXTS]
        uniform = [[of.at(layer).uniform for layer in range(bert.n_layers)] for of in known]
        ours = chance[chance.metric == f"{metric}_uniform"].groupby("layer")["mean"].first()
        assert ours.to_numpy() == near(np.mean(uniform, 0))


def test_one_text_however_often_has_no_interval_and_no_label(
    bert: mv.AttentionModel, tmp_path: Path
) -> None:
    """A single text gives `head_report`'s labels; over texts nothing is known."""
    found = mv.study(bert, TEXTS[:1] * 3, tmp_path / "study")
    assert found.n_texts == 1 and found.labels.empty
    assert found.manifest["counts"]["n_duplicates"] == 2
    assert found.heads[["low", "high"]].isna().all(axis=None)
    assert found.heads[found.heads.metric == "entropy"]["mean"].notna().all()
    every = found.sql("SELECT DISTINCT label, share_of_texts FROM labels")
    assert every["share_of_texts"].max() == 1  # on the text itself heads have earned some
    assert " 1" in found.notes[-1]
    two = mv.study(bert, TEXTS[:2], tmp_path / "of two")
    assert two.heads[two.heads.metric == "entropy"][["low", "high"]].notna().all(axis=None)


def test_pairs_are_means_over_texts(made: Study, reports) -> None:
    for measure in ("hellinger", "redundancy", "cka", "correlation"):
        single = [mv.head_similarity(record, measure).numpy() for record, _ in reports]
        off = ~np.eye(32, dtype=bool)
        assert made.pairs(measure)[off] == near(np.mean(single, 0)[off])
        spread = np.std(single, axis=0, ddof=1)
        assert made.pairs(measure, "std")[off] == near(spread[off])
        assert (np.diag(made.pairs(measure)) == float(measure != "hellinger")).all()


def test_the_profile_at_one_back_is_the_previous_token(made: Study, reports) -> None:
    """Not the mean over texts but over all queries: each text counts by its length."""
    profile = made.profile
    ours = profile[profile.offset == "-1"]["weight"].to_numpy()
    rows = np.array([len(record.tokens) - 1 for record, _ in reports])
    single = np.array([table["previous_token"] for _, table in reports])
    assert ours == near((single * rows[:, None]).sum(0) / rows.sum())
    first = [int(at) for at in profile[(profile.layer == 0) & (profile["head"] == 0)].offset]
    assert first == sorted(first)


def test_labels_are_earned_above_their_thresholds_and_baselines(shipped) -> None:
    every = shipped[1].sql("SELECT * FROM labels")
    assert {"previous_token", "next_token", "first_token"} <= set(every.label[every.earned])
    for row in every.itertuples():
        if LABELS[row.label].at_least:
            assert row.earned == (row.low >= row.threshold and row.low > row.baseline)
        else:
            assert row.earned == (row.high <= row.threshold and row.high < row.baseline)
        assert row.low <= row.mean <= row.high or np.isnan(row.mean)
    assert len(shipped[1].labels) == every.earned.sum() < len(every)


def test_corpus_labels_are_given_by_the_lower_end_of_an_interval_and_not_by_its_mean() -> None:
    ends = {"mean": [0.7, 0.7], "low": [0.45, 0.6], "high": [0.9, 0.8]}
    heads = pd.DataFrame({"metric": "previous_token", "n_units": MIN_UNITS, **ends})
    uniform = {name: [0.1] for name in ("mean", "low", "high")}
    chance = pd.DataFrame({"metric": "previous_token_uniform", **uniform})
    shares = {"previous_token": np.zeros((1, 2))}
    found = corpus_labels(1, 2, {"texts": heads, "chance": chance}, shares)
    assert found["earned"].tolist() == [False, True]
    few = {"texts": heads.assign(n_units=MIN_UNITS - 1), "chance": chance}
    assert not corpus_labels(1, 2, few, shares)["earned"].any()


EVERY = 6  # of the shipped sentences


@pytest.fixture(scope="module")
def shipped(bert, tmp_path_factory) -> tuple[list[str], Study]:
    texts = [sentence.text for sentence in sample()[::EVERY]] + TEXTS[3:4] + ["no no no no"]
    return texts, mv.study(bert, texts, tmp_path_factory.mktemp("shipped") / "study")


def test_the_share_of_texts_is_that_of_single_reports(shipped, bert) -> None:
    texts, study = shipped
    random = untrained_copy(bert)
    probed, random_probed = (induction_scores(one, part="self") for one in (bert, random))
    given = {key: np.zeros((4, 8)) for key in LABELS}
    for text in texts:
        found = report(
            bert.trace(text, keep=KEEP),
            bert,
            random=random,
            induction=probed,
            random_induction=random_probed,
        )
        for layer, head in np.ndindex(4, 8):
            earned = [one.label for one in found.labels[layer][head]]
            for label in (*earned, *found.withheld[layer][head]):
                given[label.key][layer, head] += 1
    table = study.sql("select * from labels")
    assert set(table.label) == set(LABELS) - {"induction"}
    for key in set(table.label):
        ours = table[table.label == key]["share_of_texts"].to_numpy()
        assert ours == pytest.approx(given[key].ravel() / len(texts)), key
