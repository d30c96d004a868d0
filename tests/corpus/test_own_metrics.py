"""A metric that was added to the table: a study computes it text by text, as a report does."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics.metric import Metric
from mha_viz.errors import StudyError
from tests.corpus.reference import TEXTS
from tests.making.comparing import close

MORE = ("heaviest", "above_the_mean", "on_special", "size_of_z")
KEEP = ("pattern", "z", "value")


@pytest.fixture(autouse=True)
def _added():
    """One added to the table as the book says, and three as a reader of the docs does."""
    before = dict(mv.METRICS)
    mv.METRICS["heaviest"] = Metric(
        key="heaviest",
        title="HeaviestKeys",
        limits=(0.0, 1.0),
        direction="",
        meaning="The heaviest weight.",
        formula="",
        source="here",
        function=lambda pattern: pattern.amax((-2, -1)),
    )

    @mv.register_metric
    def above_the_mean(pattern):
        return (pattern > 1 / pattern.shape[-1]).float().mean((-2, -1))

    def on_special(pattern, *, is_special):
        return pattern[..., is_special].sum((-2, -1))

    mv.register_metric(on_special, needs=["special"])
    mv.register_metric(lambda z, W_O: z.abs().mean((-2, -1)), key="size_of_z", needs=["outputs"])
    yield
    mv.METRICS.clear()
    mv.METRICS.update(before)


def test_a_study_has_it_in_every_table(tmp_path):
    model = mv.load("tiny-bert")
    study = mv.study(model, TEXTS, tmp_path / "study")
    chance = study.sql("FROM chance_layers")
    reports = [mv.head_report(model.trace(text, keep=KEEP)) for text in TEXTS]
    for key in MORE:
        heads = study.heads.query("metric == @key").sort_values(["layer", "head"])
        close(heads["mean"], np.mean([report[key] for report in reports], 0))
        layers = chance.query("metric == @key + '_uniform'").sort_values("layer")["mean"]
        by_report = np.mean([report[f"{key}_uniform"] for report in reports])
        close(layers, np.repeat(by_report, len(layers)))  # a study has the mean of all heads
    assert mv.study(model, TEXTS, tmp_path / "study").n_texts == study.n_texts
    del mv.METRICS["heaviest"]
    assert set(MORE) <= set(mv.Study.load(tmp_path / "study").heads["metric"])
    with pytest.raises(StudyError, match=r"more.*heaviest"):
        mv.study(model, TEXTS, tmp_path / "study")


def test_one_of_blocks_stands_wherever_the_others_do(tmp_path):
    mv.register_metric(
        lambda block: (block.pattern > 0.5).sum(-1).float(), key="strong_keys", by_blocks=True
    )
    model = mv.load("tiny-bert")
    records = [model.trace(text) for text in TEXTS[:3]]
    wanted = [(record.pattern > 0.5).sum(-1).float().mean(-1).flatten() for record in records]
    for record, want in zip(records, wanted, strict=True):
        close(mv.head_report(record)["strong_keys"], want)
        close(mv.METRICS["strong_keys"].function(record.pattern).flatten(), want)
    study = mv.study(model, TEXTS[:3], tmp_path / "study")
    heads = study.heads.query("metric == 'strong_keys'").sort_values(["layer", "head"])
    close(heads["mean"], np.mean(wanted, 0))
