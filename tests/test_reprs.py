"""Every public thing says what it is in a line, and results read well at the end of a cell."""

from html.parser import HTMLParser

import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.core.metrics import LABELS
from mha_viz.engine.head_changes import reference_means
from mha_viz.interventions.importance import HeadImportance
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.report import report

TEXT = "The cat sat on the mat."
LINE = 200  # characters


class Cells(HTMLParser):
    """The texts of a table's cells, row by row."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")
        if self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def model() -> mv.AttentionModel:
    return mv.load("tiny-gpt2")


@pytest.fixture(scope="module")
def record(model) -> mv.AttentionRecord:
    return model.trace(TEXT)


@pytest.fixture(scope="module")
def ablation(model):
    return mv.ablate(model, TEXT, [(layer, head) for layer in range(4) for head in range(8)])


@pytest.fixture(scope="module")
def importance() -> HeadImportance:
    mean = torch.arange(32.0, dtype=torch.float64).reshape(4, 8) / 7
    none = torch.full_like(mean, torch.nan)
    return HeadImportance("ablation", mean, none, none, mean[None], torch.ones(1), 6, ("One text",))


def test_everything_public_fits_a_line(model, record, ablation, importance):
    module = mv.MultiHeadAttention(8, 2)
    shown = [
        mv.METRICS,
        mv.METRICS["entropy"],
        LABELS["self"],
        mv.list_models()[0],
        record.tokens[0],
        model,
        record,
        module,
        module(torch.rand(1, 3, 8)),
        model.attention_weights(0),
        mv.Intervention([(0, 1)]),
        mv.Intervention([(0, 1)], "patch_z", source=record),
        mv.Intervention([(0, 1)], "mean", reference=reference_means(model, [TEXT])),
        ablation,
        importance,
        mv.predict(model, TEXT),
        mv.generate(model, "The"),
        mv.Writing(model, "The"),
        mv.Writing(model, "The").step(),
        report(record),
        induction_scores(model, n_seeds=2),
        mv.show_head(record, 0, 0),
    ]
    lines = {type(one).__name__: repr(one) for one in shown}
    assert len(lines) >= 17
    for name, line in lines.items():
        assert "\n" not in line and len(line) <= LINE and "tensor(" not in line, (name, line)


def test_a_repr_says_what_matters(ablation, importance):
    assert "most: L3 H7 4.43 nats" in repr(importance)
    assert "L0 H0, L0 H1" in repr(ablation) and "and 26 more" in repr(ablation)
    assert repr(mv.METRICS).startswith(f"MetricTable({len(mv.METRICS)} metrics: entropy")
    module = repr(mv.MultiHeadAttention(8, 2, 1))
    assert "d_model=8, n_heads=2, n_kv_heads=1, d_head=4" in module


def test_importance_shows_the_heads_that_matter_most(importance):
    markup = importance._repr_html_()
    names, *rows = Cells(markup).rows
    assert len(rows) == 10 and names == ["layer", "head", "importance"]
    assert rows[0] == ["3", "7", "4.429"]
    assert "One text" in markup and len(importance.table()) == 32


def test_an_ablation_shows_what_becomes_likelier(ablation):
    names, *rows = Cells(ablation._repr_html_()).rows
    assert names == ["token", "before", "after", "change", "log_change"]
    before = list(ablation.table()["before"])
    assert [float(row[1]) for row in rows] == pytest.approx(before, rel=1e-3)


def test_the_report_shows_its_main_columns_and_holds_all(record):
    table = mv.head_report(record)
    assert isinstance(table, pd.DataFrame) and table.shape[1] > 30
    names, *rows = Cells(table._repr_html_()).rows
    assert names[:4] == ["layer", "head", "labels", "entropy"]
    assert len(rows) == 32 and 6 < len(names) < 12
    assert max(map(len, repr(table).splitlines())) < LINE
    assert f"32 heads, {table.shape[1]} columns" in repr(table)
    for made in (table.sort_values("entropy"), table[["layer", "entropy"]], table.head(3)):
        assert type(made) is pd.DataFrame


def test_no_text_becomes_markup(model):
    found = mv.ablate(model, "<b>bold</b> <script>", [(0, 0)])
    assert "<b>" not in found._repr_html_() and "<script>" not in found._repr_html_()
