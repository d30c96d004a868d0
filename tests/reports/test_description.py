"""Planted heads in words: each claim is the one that was planted, each number the library's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.compare.chance import permuted_pairs
from mha_viz.core.measure import measure, text_baselines
from mha_viz.core.metrics import LABELS
from mha_viz.core.record.chosen import chosen_heads
from mha_viz.engine import loaded_network
from mha_viz.reports.description import CLEAREST, Number, clearest
from mha_viz.reports.report import report
from tests.making.comparing import near

N, LAYERS, HEADS = 29, 2, 3
PREVIOUS, UNIFORM, FIRST, COPY, ONE_ROW, NOISY = ((i, j) for i in range(2) for j in range(3))


def planted(n: int = N, **options) -> mv.AttentionRecord:
    """Previous-token, uniform, first-token heads; a copy; one other row; a noisy head."""
    before = torch.eye(n).roll(-1, 1)
    before[0] = torch.eye(n)[0]
    before = 0.9 * before + 0.1 / n
    uniform = torch.full((n, n), 1 / n)
    first = 0.8 * torch.eye(n)[0].expand(n, n) + 0.2 / n
    other = first.clone()
    other[n // 2] = torch.eye(n)[n - 1]
    dice = np.random.default_rng(5)
    noisy = torch.tensor(dice.dirichlet(np.full(n, 0.3), size=n), dtype=torch.float32)
    pattern = torch.stack([before, uniform, first, first, other, noisy])
    tokens = [f"t{i}" for i in range(n)]
    return mv.record(pattern.reshape(LAYERS, HEADS, n, n), tokens, causal=False, **options)


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return planted()


@pytest.fixture(scope="module")
def gpt() -> tuple[mv.AttentionModel, mv.AttentionRecord]:
    model = mv.load("tiny-gpt2")
    text = "The dog saw the cat and the cat saw the dog in the garden."
    return model, model.trace(text, keep=("pattern", "z", "value"))


def texts(found) -> list[str]:
    return [sentence.text for sentence in found.sentences]


def test_describe_names_what_was_planted_beside_uniform_attention(record) -> None:
    found = mv.describe(record, PREVIOUS)
    weight, uniform = 0.9 + 0.1 / N, 1 / N
    assert texts(found)[0] == (
        f"L0 H0 looks at the previous token ({weight:.3g} of the weight; uniform attention gives "
        f"{uniform:.3g})."
    )
    (number,) = found.sentences[0].numbers.values()
    assert number == Number(near(weight), near(uniform))
    assert "L0 H2 looks at the first token" in str(mv.describe(record, FIRST))


def test_describe_says_that_a_head_has_no_label_and_what_is_unusual(record) -> None:
    found = mv.describe(record, UNIFORM)
    labelled = sum(bool(head) for layer in report(record).labels for head in layer)
    assert texts(found)[0] == f"L0 H1 earns no label, as {6 - labelled} of 6 heads on this text."
    numbers = found.sentences[1].numbers
    (key,) = {name.split(",")[0] for name in numbers}
    scores = measure(record)[key].flatten().double()
    value = float(scores[1])
    assert numbers[f"{key}, median of all heads"] == (near(value), near(float(np.median(scores))))
    uniform = text_baselines(record)[key].uniform
    assert numbers[f"{key}, uniform attention"] == (near(value), near(uniform))

    def away(values: torch.Tensor) -> float:
        every = values.flatten().double().numpy()
        apart = np.abs(every - np.median(every))
        spread = np.median(apart)
        return apart[1] / spread if spread else np.inf if apart[1] > 1e-6 else 0.0

    every = {name: away(values) for name, values in measure(record).items() if away(values) > 1e-5}
    assert every[key] == max(every.values())


def test_describe_heads_is_honest_where_no_head_has_a_label() -> None:
    even = mv.record(torch.full((2, 3, N, N), 1 / N), [f"t{i}" for i in range(N)], causal=False)
    (sentence,) = mv.describe_heads(even).sentences
    assert sentence.text == "No head of 6 earns a label on this text."
    assert sentence.numbers == {"heads without a label": (6, 6)}


def test_describe_of_a_model_uses_the_numbers_of_its_report(gpt) -> None:
    model, record = gpt
    made = report(record, model)
    table = made.table(record).set_index(["layer", "head"])
    hint = mv.describe_heads(record, report=made)
    assert "look at what followed the token before" in str(hint)
    for name, number in hint.sentences[0].numbers.items():
        place, metric = name.rsplit(" ", 1)
        layer, head = (int(part[1:]) for part in place.split())
        assert number.value == near(table.loc[(layer, head), metric])
        assert metric in table.columns and number.baseline < number.value
    assert mv.describe(record, (-1, -1), report=made).sentences[-1].text.startswith("L3 H7's")
    assert mv.describe(record, (0, 0), report=made).notes == made.notes


def test_describe_difference_of_planted_heads_counts_and_ranks_by_hand(record) -> None:
    found = mv.describe_difference(record, PREVIOUS, NOISY)
    row = found.metrics.loc["previous_token"]
    scores = measure(record)["previous_token"].flatten().double().numpy()
    apart = np.abs(scores[:, None] - scores)[np.triu_indices(6, 1)]
    assert (row.a, row.b) == (near(scores[0]), near(scores[5]))
    assert row.difference == near(scores[5] - scores[0])
    assert row.spreads == near((scores[5] - scores[0]) / scores.std())
    assert row.unusual == near((apart < abs(scores[5] - scores[0]) - 1e-7).mean())
    assert row.beyond_noise and row.uniform_a == near(1 / N)
    assert found.metrics.unusual.is_monotonic_decreasing
    (claim,) = [sentence for sentence in found.sentences if "beyond noise" in sentence.text]
    n = int(found.metrics.beyond_noise.sum())
    assert f"beyond noise in {n} of {int(found.metrics.p.notna().sum())} metrics" in claim.text
    for key, number in claim.numbers.items():
        assert number == (near(found.metrics.difference[key]), near(found.metrics.noise[key]))
        assert abs(number.value) > number.baseline


def test_describe_difference_of_a_copy_finds_no_difference(record) -> None:
    found = mv.describe_difference(record, FIRST, COPY)
    assert not found.metrics.beyond_noise.any() and (found.metrics.difference == 0).all()
    assert found.pairs.empty
    assert any("beyond noise in 0 of" in text for text in texts(found))
    assert any("Hellinger distance of 0, closer than" in text for text in texts(found))


def test_describe_difference_of_one_row_shows_its_tokens_and_claims_nothing(record) -> None:
    found = mv.describe_difference(record, FIRST, ONE_ROW)
    assert set(found.pairs["query"]) == {N // 2} and len(found.pairs) == 8
    top = found.pairs.iloc[0]
    assert (top["key"], top.key_token, top.query_token) == (N - 1, f"t{N - 1}", f"t{N // 2}")
    assert (top.a, top.b) == (near(0.2 / N), near(1.0))
    assert not found.metrics.beyond_noise.any()


def test_describe_difference_gives_the_likeness_and_chance_of_the_library(gpt) -> None:
    _, record = gpt
    likeness = {name: mv.head_similarity(record, name) for name in ("hellinger", "cka")}
    found = mv.describe_difference(record, (0, 2), (2, 5), likeness=likeness)
    again = mv.describe_difference(record, (0, 2), (2, 5))
    assert texts(found) == texts(again)
    pair = chosen_heads((record, (0, 2)), (record, (2, 5)))
    numbers = {key: one for said in found.sentences for key, one in said.numbers.items()}
    for name, matrix in likeness.items():
        chance = permuted_pairs(pair, name)
        assert numbers[name] == (near(float(matrix[2, 21])), near(sum(chance.band) / 2))
    each = likeness["hellinger"][tuple(np.triu_indices(32, 1))]
    share = float((each > likeness["hellinger"][2, 21]).float().mean())
    assert numbers["hellinger, share of pairs"].value == near(share)
    cka = likeness["cka"][tuple(np.triu_indices(32, 1))]
    below = (cka < 0).nonzero()[:, 0]  # less alike than not at all, and not all of them equally
    number = below[cka[below].argsort()[len(below) // 2]]
    a, b = (divmod(int(at[number]), 8) for at in np.triu_indices(32, 1))
    opposite = mv.describe_difference(record, a, b, likeness=likeness)
    ranks = [s.numbers["cka, share of pairs"] for s in opposite.sentences if "CKA" in s.text]
    assert ranks[0].value == near(float((cka < cka[number]).float().mean()))
    assert ranks[0].value > 0
    for key, values in measure(record).items():
        assert found.metrics.loc[key, ["a", "b"]].tolist() == near(
            [float(values[0, 2]), float(values[2, 5])]
        )


def test_describe_difference_of_one_head_on_two_texts(gpt) -> None:
    model, record = gpt
    other = model.trace("An old cat saw a dog in the garden yesterday.")
    found = mv.describe_difference(record, (0, 2), (0, 2), other=other)
    assert texts(found)[0].startswith("A L0 H2") and texts(found)[1].startswith("B L0 H2")
    assert found.pairs.empty and "tokens that both texts share" in texts(found)[-1]
    one, two = (measure(made)["previous_token"].double() for made in (record, other))
    changes = (two - one).abs().flatten()
    row = found.metrics.loc["previous_token"]
    assert row.unusual == near(float((changes < changes[2] - 1e-9).double().mean()))
    assert "of the changes of 32 heads" in str(found)


def test_describe_difference_from_the_untrained_copy_pairs_their_rows(gpt) -> None:
    from mha_viz.checkpoints.untrained_copy import untrained_copy

    model, record = gpt
    other = untrained_copy(model).trace(record.text, keep=("pattern", "z"))
    found = mv.describe_difference(record, (0, 2), (0, 2), other=other)
    assert found.metrics.beyond_noise["previous_token"] and len(found.pairs) == 8
    assert np.isfinite(found.metrics.p["mutual_information"])  # tested where rows are paired
    weights = [
        float(one[0, 2][tuple(found.pairs[["query", "key"]].iloc[0])]) for one in (record, other)
    ]
    assert found.pairs.loc[0, ["a", "b"]].tolist() == near(weights)


@pytest.mark.parametrize("text", ["a", "the cat", "The cat sat."])
def test_describe_difference_of_a_short_text_says_that_it_is_short(gpt, text) -> None:
    model, _ = gpt
    record = model.trace(text, keep=("pattern", "z", "value"))
    found = mv.describe_difference(record, (0, 2), (2, 5))
    assert any("too short to tell" in text for text in texts(found))
    assert not found.metrics.beyond_noise.any()
    assert len(mv.describe_heads(record).sentences) == 1


def test_descriptions_of_merged_shortened_and_single_headed_records(gpt) -> None:
    _, record = gpt
    for made in (record.merge_words(), record.without_first(), replace(record, z=None)):
        found = mv.describe_difference(made, (0, 2), (2, 5))
        assert found.metrics.loc["entropy", "a"] == near(float(measure(made)["entropy"][0, 2]))
        assert ("CKA" in str(found)) == (made.z is not None)
    assert any("left out" in note for note in mv.describe(record.without_first(), (0, 2)).notes)
    lone = mv.record(record.pattern[:1, 2:3], record.tokens)
    assert "L0 H0 looks at the previous token" in str(mv.describe(lone, (0, 0)))
    same = mv.describe_difference(lone, (0, 0), (0, 0))
    assert texts(same)[-1] == "Both are the same head: no number differs."


def test_describe_difference_of_computed_weights_equals_that_of_stored_ones(
    gpt, monkeypatch
) -> None:
    model, _ = gpt
    text = "The dog saw the cat. " * 20
    stored = model.trace(text, keep=("pattern", "z"))
    monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    computed = model.trace(text, keep=("pattern", "z"))
    one, two = (mv.describe_difference(made, (0, 2), (2, 5)) for made in (computed, stored))
    assert type(computed.patterns) is not type(stored.patterns)
    assert one.metrics.p.tolist() == pytest.approx(two.metrics.p.tolist(), abs=1e-3, nan_ok=True)
    assert one.pairs["query"].tolist() == two.pairs["query"].tolist()
    assert "63 blocks of rows" in str(one)  # of 64; the first is a row that sees one key


def test_descriptions_draw_themselves_without_markup(gpt) -> None:
    model, _ = gpt
    found = mv.describe_difference(model.trace("<b>bold</b> is <script> bold"), (0, 2), (2, 5))
    assert "<b>" not in found._repr_html_() and "\n" not in repr(found)
    assert len(repr(found)) <= 200 and repr(found).startswith("Difference(")


def test_clearest_prefers_labels_of_words_to_those_of_sinks(record) -> None:
    found = clearest(report(record))
    weight, uniform = 0.9 + 0.1 / N, 1 / N
    assert found.head == PREVIOUS and found.text == "looks at the previous token"
    assert found.amount == f"{weight:.2f} of its weight" and found.chance == f"{uniform:.2f}"
    without = mv.record(record.pattern[:, 1:], [f"t{i}" for i in range(N)], causal=False)
    sink = clearest(report(without))
    assert sink.head == (0, 1) and "first token" in sink.text
    uniform = torch.full((1, 2, N, N), 1 / N)
    found = clearest(report(mv.record(uniform, [f"t{i}" for i in range(N)], causal=False)))
    assert found.head is None and not found.amount and "2" in found.text
    assert set(CLEAREST) == set(LABELS) and len(CLEAREST) == len(LABELS)
