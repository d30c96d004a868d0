"""One head over many texts without a browser: its facets hold the numbers of the study."""

import json
from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.core.amounts import format_number
from mha_viz.corpus.query.comparison import percentiles, scores_of_head
from mha_viz.corpus.run.sample_study import FOLDER, sample_study
from mha_viz.paper.head_sentence import head_sentence
from mha_viz.ui.many_texts.spaces import N_TEXTS
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state.views import DEFAULT, TITLES
from mha_viz.web.payload import unpack
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, said
from tests.ui.heads_app import brought, heads_page
from tests.ui.many_texts_app import many_texts
from tests.ui.opening import components

HEAD = (1, 2)
TYPED = "The dog saw the cat and the cat saw the dog."


def one_head(facet: str, model: str = "tiny-bert", **params: str):
    place = dict(zip(("layer", "head"), map(str, HEAD), strict=True))
    app = many_texts(tab="one", facet=facet, model=model, **place, **params)
    check(app)
    return app


def component(app, name: str):
    """Return what the only component of that name on the page gets."""
    (proto,) = components(app, name)
    return proto


@pytest.fixture(scope="module", params=["tiny-bert", "tiny-gpt2", "tiny-llama"])
def study(request) -> mv.Study:
    return mv.Study.load(shipped_folder() / request.param / FOLDER)


def _model(study: mv.Study) -> str:
    return study.manifest["model"]["name"]


def test_every_facet_opens_under_one_sentence_of_numbers(study):
    app = one_head("profile", _model(study))
    for facet in TITLES["facets"]:
        app.segmented_control(key="ask_facet").set_value(facet).run()
        if facet != "words":  # one of these may be "inf"
            check(app)
        assert not app.exception
        assert head_sentence(study, HEAD) in said(app).replace("\\", "")


def test_the_deciles_are_those_of_the_study_with_its_edges(study):
    data = json.loads(component(one_head("examples", _model(study)), "decile_texts").json)
    expected = study.deciles(*HEAD, by="entropy")
    assert [band["number"] for band in data["bands"]] == sorted(set(expected["band"]))[::-1]
    assert data["typed"] is None
    for band in data["bands"]:
        rows = expected[expected["band"] == band["number"]][::-1]
        assert [one["says"].split(",")[0] for one in band["texts"]] == [
            format_number(value) for value in rows["value"]
        ]
        for drawn, text_id in zip(band["texts"], rows["text_id"], strict=True):
            edges = study.sql(
                f"SELECT query, key, weight FROM edges WHERE text_id = {text_id} AND layer = "
                f"{HEAD[0]} AND head = {HEAD[1]} ORDER BY weight DESC, query, key LIMIT 24"
            )
            arcs = [(arc["start"], arc["end"]) for arc in drawn["above"]]
            assert arcs == list(edges[["query", "key"]].itertuples(index=False, name=None))
    low, high = expected["band_from"].min(), expected["band_to"].max()
    ends = [(band["from"], band["to"]) for band in data["bands"]]
    assert min(ends)[0] == 0 and max(end for _, end in ends) == 1
    row = expected.iloc[0]
    assert ends[-1][1] == pytest.approx((row["band_to"] - low) / (high - low))


def test_a_typed_text_of_the_study_lies_in_its_own_decile_with_its_own_edges(study):
    row = study.deciles(*HEAD, by="distance").iloc[4]
    app = one_head("examples", _model(study), metric="distance", typed=row["text"])
    data = json.loads(component(app, "decile_texts").json)
    typed = data["typed"]
    assert typed["band"] == row["band"]
    assert typed["says"].startswith(f"{format_number(row['value'])}, {row['n_tokens']} tokens")
    same = [
        one for band in data["bands"] for one in band["texts"] if one["pieces"] == typed["pieces"]
    ]
    arcs = [{(arc["start"], arc["end"]) for arc in one["above"]} for one in (typed, *same)]
    assert len(arcs) == 2 and arcs[0] == arcs[1]


def test_a_typed_text_is_marked_in_the_histogram_and_refused_in_words():
    app = one_head("profile", typed=TYPED)
    (shapes,) = [found for one in figures(app) if (found := one["layout"].get("shapes"))]
    assert len(shapes) == 1 and shapes[0]["x0"] < shapes[0]["x1"]
    unknown = one_head("examples", metric="duplicate_token", typed="Rain fell.")
    assert "not defined on your text" in said(unknown)
    assert json.loads(component(unknown, "decile_texts").json)["typed"] is None


def test_the_spaces_are_those_of_the_library(study):
    app = one_head("spaces", _model(study), component_x="2", component_y="5", colouring="received")
    header, body = unpack(component(app, "token_spaces").bytes)
    model = mv.load(_model(study))
    spaces = mv.head_spaces(model, study.sample_texts(N_TEXTS), *HEAD)
    assert header["tokens"] == [token.text for token in spaces.tokens]
    n, n_panels = len(spaces.tokens), 8
    values = np.frombuffer(body[: 4 * n], "<f4")
    assert values == pytest.approx(spaces.received.numpy(), abs=1e-5)
    places = np.frombuffer(body[4 * n :], "<i2").reshape(n_panels, n, 2) / 65534
    for panel in range(n_panels):
        components = [0, 1] if panel < 4 else [1, 4]
        own = spaces.coordinates[panel % 4][:, components].double().numpy()
        middle, side = (own.max(0) + own.min(0)) / 2, np.ptp(own, 0).max()
        ours = (own - middle) / side
        signs = np.sign((ours * places[panel]).sum(0))
        assert places[panel] == pytest.approx(ours * signs, abs=2e-3)
        share = 100 * float(spaces.explained[panel % 4, components[0]])
        title = f"PC {components[0] + 1}: {format_number(share)} %"
        assert header["panels"][panel]["axes"][0] == title
    assert all(note in said(app).replace("\\", "") for note in spaces.notes)


def test_what_a_link_asks_for_and_no_study_has_is_replaced(study):
    app = one_head("spaces", _model(study), colouring="moon", component_x="77")
    view = app.session_state.view
    assert (view.colouring, view.component_x) == ("kind", 3)


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
