"""The report card: every number is the metric's own; and the head that it says most of."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.core import metrics
from mha_viz.core.measure import measure, text_baselines
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError, NotKeptError
from mha_viz.reports.report import KEEP, PLACES, most_informative_head, report
from tests.core.records import make
from tests.making.comparing import close, near

TEXT = "The dog saw the cat and the cat saw the dog in the garden."


@pytest.fixture(scope="module")
def record(gpt: mv.AttentionModel) -> mv.AttentionRecord:
    return gpt.trace(TEXT, keep=KEEP)


@pytest.fixture(scope="module")
def full(gpt: mv.AttentionModel, record: mv.AttentionRecord) -> pd.DataFrame:
    return mv.head_report(record, gpt)


def test_a_row_for_each_head_and_a_column_for_each_metric(full, record) -> None:
    assert list(zip(full.layer, full["head"], strict=True)) == [
        (i, j) for i in range(4) for j in range(8)
    ]
    heads = {key for key, m in metrics.METRICS.items() if m.of == "head"}
    # a causal text without markers, and a model without learned sinks
    hidden = {"next_token", "special_token", "separator_token", "sink"}
    assert heads - hidden <= set(full) and not hidden & set(full)
    for key, values in measure(record).items():
        assert full[key].to_numpy() == near(values.flatten().numpy()), key
    assert not full.drop(columns=["labels", "why"]).isna().any().any()
    table = mv.head_report(record)
    assert not {"induction", "entropy_random"} & set(table) and "entropy_uniform" in table


def test_every_score_has_its_baselines(full, record) -> None:
    found = text_baselines(record)
    for key in measure(record):
        assert f"{key}_random" in full
        if key == "duplicate_token":
            continue
        assert full[f"{key}_uniform"][0] == near(found[key].at(0, 0).uniform)
        assert full[f"{key}_offset"][0] == near(found[key].at(0, 0).offset)
    assert full["previous_token_offset"][0] == 1.0
    assert full["induction_random"][0] < 0.2 < full["induction"].max()
    # the second copy's rows see 26 to 50 tokens; a head that looks one token back misses them all
    assert full["induction_uniform"][0] == near((1 / np.arange(26, 51)).mean())
    assert full["induction_offset"][0] == 0.0


def test_labels_say_why(full) -> None:
    best = full.loc[full.previous_token.idxmax()]
    assert "Previous token" in best.labels.split("; ")
    assert f"{best.previous_token:.3g}" in best.why and "needs 0.5" in best.why
    induction = full.loc[full.induction.idxmax()]
    assert "Induction" in induction.labels and induction.induction_low > 0.4
    assert (full.labels == "").any()  # a head may have none


def test_a_head_that_copies_another_is_its_twin() -> None:
    base = make(value=None)
    pattern, z = base.pattern.clone(), base.require("z").clone()
    noise = torch.rand(pattern.shape[2:], generator=torch.Generator().manual_seed(5))
    pattern[1, 2] = 0.99 * pattern[0, 1] + 0.01 * noise / noise.sum(-1, keepdim=True)
    z[1, 2] = 3 * z[0, 1]
    table = mv.head_report(replace(base, pattern=pattern, z=z))
    row = table[(table.layer == 1) & (table["head"] == 2)].iloc[0]
    assert row.twin == "L0 H1" and row.twin_hellinger < 0.05
    assert row.output_twin == "L0 H1" and row.output_twin_cka == near(1.0)
    other = table[(table.layer == 0) & (table["head"] == 1)].iloc[0]
    assert other.twin == "L1 H2"
    hybrid = replace(base, pattern=pattern, z=z, layer_numbers=(3, 7))
    named = mv.head_report(hybrid)
    assert named.layer.tolist() == [3] * 3 + [7] * 3 and named.twin[1] == "L7 H2"
    names = ["layer", "twin", "output_twin"]
    pd.testing.assert_frame_equal(table.drop(columns=names), named.drop(columns=names))
    renamed = str(mv.describe(replace(hybrid, layer_numbers=()), (1, 2))).replace("L1 ", "L7 ")
    assert str(mv.describe(hybrid, (7, 2))) == str(mv.describe(hybrid, (-1, 2))) == renamed
    assert "L3 H1" in str(mv.describe_difference(hybrid, (3, 1), (7, 2)))
    with pytest.raises(ArgumentError, match="no layer 1: layers with attention are 3, 7"):
        mv.describe(hybrid, (1, 2))


def test_an_unknown_measure_is_refused(record) -> None:
    with pytest.raises(ArgumentError, match=r"hellinger.*'l2'"):
        mv.head_similarity(record, "l2")
    with pytest.raises(NotKeptError, match="z"):
        mv.head_similarity(mv.load("tiny-gpt2").trace(TEXT, keep=("pattern",)), "cka")


def test_one_token_has_numbers_or_nothing(gpt) -> None:
    record = gpt.trace("a", keep=KEEP)
    assert len(record.tokens) == 1
    table = mv.head_report(record, gpt)
    assert (table.entropy == 0).all() and (table.self_token == 1).all()
    assert "previous_token" not in table
    for key in ("output_norm", "norm_of_mean_output"):  # its attention is uniform by force
        assert table[key].to_numpy() == near(table[f"{key}_uniform"].to_numpy())
    assert table.output_twin.isna().all()  # one token's outputs do not vary


def test_merged_and_shortened_records_say_what_they_are(gpt, record) -> None:
    words = report(record.merge_words(), gpt)
    assert any("words" in note for note in words.notes)
    assert words.baselines["entropy"].random is not None
    less = report(record.without_first(), gpt)
    assert any("left out" in note for note in less.notes)
    assert less.baselines["entropy"].random is None
    uniform = np.log(np.arange(1, len(record.tokens))).mean()
    assert less.baselines["entropy"].uniform == near(uniform)
    made = report(record.without_first(renormalize=False), gpt)
    assert any("rows not scaled back" in note for note in made.notes)
    assert not any("rows scaled back" in note for note in made.notes)
    assert all(values.isfinite().all() for values in made.scores.values())


def test_redundancy_as_textbooks_have_it(record) -> None:
    z = record.z.double().flatten(0, 1)
    size = z.flatten(1).norm(dim=-1)
    want = torch.stack([(z @ one.mT).flatten(1).norm(dim=-1) for one in z]) / size[:, None] / size
    close(mv.head_similarity(record, "redundancy", normalize=False), want)


def test_parameters_of_heads(gpt) -> None:
    Q, K = (torch.cat(gpt.head_weights(name)).double() for name in ("W_Q", "W_K"))
    for name, matrices in (("W_Q", Q), ("W_QK", Q @ K.mT)):
        unit = torch.nn.functional.normalize(matrices.flatten(1), dim=-1)
        close(mv.parameter_similarity(gpt, name), unit @ unit.T)
    V, W_O = (torch.cat(gpt.head_weights(name)).double() for name in ("W_V", "W_O"))
    U, _, W = torch.linalg.svd(V @ W_O)
    expected = torch.ones(32, 32, dtype=torch.float64)
    for bases in (U[..., : gpt.d_head], W.mT[..., : gpt.d_head]):  # what is read, and written
        inside = bases.mT[:, None] @ bases[None]
        expected *= inside.square().sum((-2, -1)) / gpt.d_head
    close(mv.parameter_similarity(gpt, "W_OV", "subspace_overlap"), expected)
    layer = mv.parameter_similarity(gpt, "W_V")[8:16, 8:16].double()
    off = layer[~torch.eye(8, dtype=torch.bool)]
    assert mv.diversity(gpt, 1, "W_V") == near(float((1 - off.abs()).mean()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: mv.parameter_similarity(m, "W_X"), "W_Q, W_K"),
        (lambda m: mv.parameter_similarity(m, "W_QK", "angle"), "must be one of cosine, sub"),
        (lambda m: mv.diversity(m, 99), "0..3"),
        (lambda m: mv.diversity(m, 0, "W_QK"), "W_Q, W_K"),
    ],
)
def test_what_there_is_not_is_named(gpt, call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(gpt)


def test_a_model_too_small_for_the_induction_probe_is_measured_all_the_same(monkeypatch) -> None:
    gpt = mv.load("tiny-gpt2")
    monkeypatch.setattr(gpt, "n_ctx", 3)  # no text fits twice
    made = report(gpt.trace("a b"), gpt)
    assert "induction" not in made.scores and made.induction is None
    assert any(
        note.startswith("Induction was not probed: tiny-gpt2 takes 3 tokens") for note in made.notes
    )


def test_a_head_that_attends_to_nothing_has_no_numbers_and_no_labels(record) -> None:
    pattern = record.pattern.clone()
    pattern[1, 3] = 0.0
    pattern[2, 5, 4] = 0.0
    made = report(replace(record, pattern=pattern))
    assert any("attend to nothing on this text: 1." in note for note in made.notes)
    assert any("Some queries attend to nothing" in note for note in made.notes)
    assert made.labels[1][3] == ()
    table = made.table(record).set_index(["layer", "head"]).loc[(1, 3)]
    assert np.isnan(table.entropy) and np.isnan(table.distance) and table.output_norm > 0


def test_what_is_missing_is_said(gpt, record, tmp_path) -> None:
    def notes(seen: mv.AttentionRecord) -> str:
        return " ".join(report(seen).notes)

    (withheld,) = report(record).notes  # one head alone at the first token may be chance
    assert withheld.startswith("Labels withheld") and "First token (sink) (1)" in withheld
    assert "single token" in notes(gpt.trace("a", keep=KEEP))
    assert "not at hand" in notes(mv.AttentionRecord.load(record.save(tmp_path / "r.safetensors")))
    bare = mv.AttentionRecord.load(record.save(tmp_path / "bare.safetensors"))
    none = dict.fromkeys(("z", "query", "key", "value"))
    one = replace(bare, pattern=record.pattern[:1, :1], scale=(), **none)
    assert "no twin" in notes(one)


TOLD = np.array([[0.2, 1.0, 0.9], [0.8, 0.1, 0.3]])


def test_the_head_that_tells_most_is_taken_where_none_looks_at_places():
    assert most_informative_head({"mutual_information": TOLD}) == (0, 1)
    assert most_informative_head({"mutual_information": torch.tensor(TOLD)}) == (0, 1)
    unknown = np.full_like(TOLD, np.nan)
    told = TOLD.copy()
    told[0, 1] = np.nan
    assert most_informative_head({"mutual_information": told, "special_token": unknown}) == (0, 2)


@pytest.mark.parametrize("place", PLACES)
def test_a_head_that_looks_at_places_tells_less_of_the_words(place):
    fixed = np.zeros_like(TOLD)
    fixed[0, 1] = 0.5  # 1.0 becomes 0.5
    assert most_informative_head({"mutual_information": TOLD, place: fixed}) == (0, 2)
    assert place in METRICS


@pytest.mark.parametrize(
    "scores", [{}, {"entropy": TOLD}, {"mutual_information": np.full((2, 3), np.nan)}]
)
def test_where_nothing_tells_heads_apart_it_is_the_first(scores):
    assert most_informative_head(scores) == (0, 0)
