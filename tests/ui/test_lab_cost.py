"""The page of the lab on cost: the times that are measured stand beside what the counts say."""

import pytest

from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.numbers import Sizes, costs
from tests.ui.compare_app import check, table
from tests.ui.lab_app import lab

KEY = "cost"


def test_measured_times_and_bytes_are_those_of_the_settings(monkeypatch):
    monkeypatch.setattr(measured, "RUNS", 1)
    settings = dict(time_width="64", time_heads="2", longest="512", measured="1")
    app = lab(KEY, "lengths", "time-by-heads", **settings)
    app.button(key=f"{KEY}-start").click().run()
    check(app)
    found = app.session_state[f"{KEY}-start-results"][64, 2, 512, 0]
    shown = table(app, "n", "bytes, calculated")
    assert list(shown["n"]) == [64, 128, 256, 512]
    assert list(shown["seconds, weights kept"]) == list(found.seconds["weights"][:4])
    assert (shown["bytes of the weights, measured"] == shown["bytes, calculated"]).all()
    counted = costs(Sizes(512, 64, 2)).projections / found.speed
    assert shown["count: projections (seconds)"].iloc[-1] == pytest.approx(counted)
    by_heads = table(app, "heads", "bytes of the weights")
    assert list(by_heads["bytes of the weights"]) == [4 * h * 512**2 for h in (1, 2, 4, 8, 16, 32)]
