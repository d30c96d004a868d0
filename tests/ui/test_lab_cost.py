"""The page of the lab on cost: the times that are measured stand beside what the counts say."""

import pytest

from mha_viz.core.amounts import of_bytes, short
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.numbers import Sizes, costs
from tests.ui.compare_app import check, table
from tests.ui.lab_app import lab

KEY = "cost"


def test_bill_is_that_of_the_library_and_follows_the_controls():
    sizes = {"n": 512, "d_model": 768, "n_heads": 12, "n_layers": 12}
    for changes in ({}, {"n": 1024, "d_model": 512, "n_heads": 8, "n_kv_heads": 2}):
        app = lab(KEY, "by-heads", "growth", **{"more-heads": "1"})
        for name, value in changes.items():
            app.number_input(key=f"{KEY}-{name}").set_value(value)
        check(app.run())
        cost = costs(Sizes(**sizes | changes))
        bill = table(app, "Operations", "one layer")
        assert bill["one layer"].iloc[-1] == short(cost.layer)
        assert bill["one head"].iloc[-1] == short(cost.head)
        memory = table(app, "Memory", "12 layers").set_index("Memory")["12 layers"]
        assert memory["key-value cache"] == of_bytes(cost.cache)
        assert memory["attention weights, all kept"] == of_bytes(cost.pattern)
    growth = table(app, "n", "bytes of all attention weights").set_index("n")
    assert list(growth.loc[1024])[1:] == [cost.scores + cost.mixing, cost.pattern]


def test_measured_times_and_bytes_are_those_of_the_settings(monkeypatch):
    monkeypatch.setattr(measured, "RUNS", 1)
    settings = dict(time_width="64", time_heads="2", longest="512", measured="1")
    app = lab(KEY, "lengths", "time-by-heads", **settings)
    app.button(key=f"{KEY}-start").click().run()
    check(app)
    found = app.session_state[f"{KEY}-start-results"][64, 2, 512, 0]
    shown = table(app, "n", "bytes, calculated")
    assert list(shown["n"]) == [64, 128, 256, 512]
    assert list(shown["seconds, weights kept"]) == found.seconds["weights"][:4]
    assert (shown["bytes of the weights, measured"] == shown["bytes, calculated"]).all()
    counted = costs(Sizes(512, 64, 2)).projections / found.speed
    assert shown["count: projections (seconds)"].iloc[-1] == pytest.approx(counted)
    by_heads = table(app, "heads", "bytes of the weights")
    assert list(by_heads["bytes of the weights"]) == [4 * h * 512**2 for h in (1, 2, 4, 8, 16, 32)]
