"""Pairs of heads on the Circuits page: composition, copying and paths are the library's own."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.ui.circuits import pairs
from mha_viz.ui.circuits.targets import signed
from mha_viz.ui.run import reporting
from mha_viz.web.theme import format_number
from tests.making.comparing import close, near
from tests.ui.circuits_app import TEXT, circuits
from tests.ui.compare_app import check, said, table


def test_copying_scores_are_the_librarys_and_bert_has_none():
    link = dict(circuit="weights", layer="1", head="2")
    app = circuits("copying", "favoured", model="tiny-gpt2", **link)
    check(app)
    found = mv.copying_scores(mv.load("tiny-gpt2"))
    close(table(app, "score", "zscore")["score"], found.table()["score"])
    assert f"copying score {signed(found.score[1, 2])}" in said(app)
    app = circuits(model="tiny-bert", **link)
    check(app)
    assert "choose a causal model" in app.info[0].value and app.get("plotly_chart")


@pytest.mark.parametrize("kind", ["Q", "K", "V"])
def test_composition_is_the_librarys_and_the_pair_furthest_from_chance_is_shown(kind):
    app = circuits("composition", model="tiny-gpt2", circuit="weights", through=kind)
    found = mv.composition(mv.load("tiny-gpt2"), kind)
    check(app)
    first = found.table().iloc[found.table()["zscore"].abs().argmax()]
    pair = "L{:.0f} H{:.0f} → L{:.0f} H{:.0f}".format(*first.iloc[:4])
    assert app.header[0].value == pair
    shown = table(app, "Writes", "Reads", "score")
    assert f"{shown['Writes'][0]} → {shown['Reads'][0]}" == pair
    assert shown["score"][0] == near(first["score"])
    row = app.table[0].value.filter(like=kind, axis=0).iloc[0]
    assert row["z"] == format_number(first["zscore"])


def test_a_chosen_pair_is_kept_in_the_link_and_shown():
    app = circuits(
        model="tiny-gpt2", circuit="weights", layer="2", head="4", layer_b="0", head_b="3"
    )
    assert app.header[0].value == "L0 H3 → L2 H4"


def test_a_chosen_pair_gives_way_to_new_chips_unless_it_is_among_them():
    app = circuits(
        model="tiny-gpt2", circuit="weights", layer="2", head="4", layer_b="0", head_b="3"
    )
    assert app.run().header[0].value == "L0 H3 → L2 H4"  # that of a link stays beside its chips

    def offered(through):
        app.button_group(key="ask_through").set_value(through).run()
        check(app)
        return [chip.partition(":")[0] for chip in app.button_group(key="most_composed").options]

    names = offered("V")
    assert app.header[0].value == names[0] and "L0 H3 → L2 H4" not in names
    assert names[0] not in (others := offered("K")) and app.header[0].value == others[0]


def test_a_pair_that_does_not_exist_is_never_named():
    values = np.full((4, 4), np.nan)
    values[:2, 2:] = 0.0
    pairs_of_layers = [((0, i), (1, j)) for i in range(2) for j in range(2)]
    assert pairs._largest(values, 2) == pairs_of_layers
    values[1, 3] = -3.0
    assert pairs._largest(values, 2)[0] == ((0, 1), (1, 1))


def test_a_path_is_measured_at_once_beside_its_estimate():
    other = "The cat saw the man. The cat saw the"
    link = dict(model="tiny-gpt2", text=TEXT, source=other, target="dog", against="man")
    app = circuits(
        *("path_effects",), **link, circuit="effect", layer="2", head="4", layer_b="1", head_b="5"
    )
    check(app)
    found = mv.path_effect(
        *(mv.load("tiny-gpt2"), TEXT, other, (1, 5), (2, 4, "key")), target="dog", against="man"
    )
    shown = app.table[0].value
    assert float(shown["Measured"]["Direct"].replace("−", "-")) == pytest.approx(
        found.direct, abs=1e-3
    )
    estimates = mv.path_effects(
        mv.load("tiny-gpt2"), TEXT, other, target="dog", against="man"
    ).estimate[1, 5, 2, 4, 1]
    rows = table(app, "Writes", "Reads", "estimate").set_index(["Writes", "Reads"])
    assert rows["estimate"]["L1 H5", "L2 H4"] == pytest.approx(estimates, rel=1e-4)
    measured = rows[rows["Known"] == "measured"]
    assert 0 < len(measured) < len(rows) and measured["measured"].notna().all()
    assert rows[rows["Known"] == "estimate"]["measured"].isna().all()


def test_all_paths_are_measured_and_the_estimates_judged_by_them():
    app = circuits("path_effects", model="tiny-gpt2", text="The cat saw the", circuit="effect")
    assert "Over all 20 measured paths" in said(app) and "strongest paths are" not in said(app)
    assert set(table(app, "Writes", "Reads", "estimate")["Known"]) == {"measured", "estimate"}
    app.button(key="measure_paths").click().run()
    check(app)
    assert "Over all 1,152 measured paths" in said(app)
    assert "of the 20 strongest paths are among the 20 largest estimates" in said(app)
    assert "Known" not in table(app, "Writes", "Reads", "estimate")
    assert "measure_paths" not in [one.key for one in app.button]


def test_all_paths_of_a_large_model_are_estimated_on_request(monkeypatch):
    monkeypatch.setattr(reporting, "AT_ONCE", 1000)
    link = dict(circuit="effect", layer="2", head="4", layer_b="1", head_b="5")
    app = circuits(model="tiny-gpt2", text=TEXT, **link)
    check(app)
    assert not app.get("plotly_chart") and app.header[0].value == "L1 H5 → L2 H4"
    one = app.table[0].value
    app.button(key="estimate_paths").click().run()
    check(app)
    assert len(app.get("plotly_chart")) == 3  # the map, the effects at the logits, the measured
    assert app.table[0].value.equals(one)


def test_kl_has_no_estimates_and_the_page_says_so():
    app = circuits(model="tiny-gpt2", text=TEXT, circuit="effect", behaviour="kl")
    check(app)
    assert "no gradient tells it" in app.info[0].value
    assert app.table[0].value["Estimated"].tolist() == ["not defined"] * 2


def test_texts_of_different_length_are_told_apart():
    app = circuits(model="tiny-gpt2", text=TEXT, circuit="effect", source="a cat")
    assert not app.exception and "as many tokens" in app.error[0].value


def test_paths_over_a_tasks_pairs_are_the_librarys():
    link = dict(model="tiny-gpt2", text=TEXT, averaged="1", task="closing", circuit="effect")
    chosen = dict(layer="2", head="4", layer_b="1", head_b="5")
    app = circuits("path_effects", **link, **chosen)
    check(app)
    assert not app.get("plotly_chart")
    app.button(key="estimate_paths").click().run()
    check(app)
    model = mv.load("tiny-gpt2")
    found = mv.task_paths(model, mv.make_task(model, "closing"))
    rows = table(app, "Writes", "Reads", "estimate").set_index(["Writes", "Reads"])
    expected = found.estimate[1, 5, 2, 4, 1]
    assert rows["estimate"]["L1 H5", "L2 H4"] == pytest.approx(expected, rel=1e-3)
    measured = rows[rows["Known"] == "measured"]
    assert (measured["95 % low"] < measured["95 % high"]).all()
    assert f"is **{format_number(found.clean)}**, a mean over 16 pairs" in said(app)
    assert list(app.table[0].value) == ["Measured", "95 % low", "95 % high", "Estimated"]
