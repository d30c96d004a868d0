"""Two heads drawn alike hardly ever differ, planted differences are found."""

from itertools import product

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.compare.exchange import Exchange, exchange_test
from mha_viz.core.measure import head_similarity, measure
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import RATE, discoveries
from mha_viz.core.record.chosen import chosen_heads, place_of
from mha_viz.errors import ArgumentError
from tests.core.patterns import HEADS, LAYERS, random_pattern
from tests.making.comparing import close, near

N = 17


def of_heads(*patterns: torch.Tensor) -> mv.AttentionRecord:
    """A record of one layer; tokens differ, so that none repeats."""
    return mv.record(
        [torch.stack(patterns)], [f"t{i}" for i in range(patterns[0].shape[-1])], causal=False
    )


def drawn(n: int, seed: int, sharpness: float = 0.3) -> torch.Tensor:
    """Rows of a head that are independent draws of one distribution."""
    dice = np.random.default_rng(seed)
    return torch.tensor(dice.dirichlet(np.full(n, sharpness), size=n), dtype=torch.float32)


def exchanged(a: torch.Tensor, b: torch.Tensor, **options) -> Exchange:
    record = of_heads(a, b)
    return exchange_test(chosen_heads((record, (0, 0))), chosen_heads((record, (0, 1))), **options)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_exchange_test_of_heads_drawn_alike_finds_at_most_its_rate(paired) -> None:
    rounds, claimed, small = 150, 0, 0
    for seed in range(rounds):
        if paired:
            found = exchanged(drawn(N, 2 * seed), drawn(N, 2 * seed + 1))
        else:
            one, two = of_heads(drawn(N, 2 * seed)), of_heads(drawn(13, 2 * seed + 1))
            sides = (chosen_heads((record, (0, 0))) for record in (one, two))
            found = exchange_test(*sides, paired=False)
            # a longer text looks further, which is no chance: these two metrics know no lengths
            p = {key: found.p[key] for key in ("self_token", "previous_token")}
            found = Exchange(p, {}, found.rows, False)
        p = np.array(list(found.p.values()))
        claimed += bool(discoveries(p).any() and found.conclusive(len(p)))
        small += found.p["self_token"] <= RATE
    # three standard deviations of 150 tests at 5 %
    limit = RATE + 3 * (RATE * (1 - RATE) / rounds) ** 0.5
    assert claimed / rounds <= limit
    assert 0.02 <= small / rounds <= limit  # neither too bold nor so timid that it tells nothing


def test_exchange_test_equals_all_exchanges_counted_by_hand() -> None:
    n = 7
    a, b = drawn(n, 3), drawn(n, 5)
    found = exchanged(a, b)
    for key in ("previous_token", "entropy", "mutual_information"):
        apart = []
        for swap in product([False, True], repeat=n):
            at = torch.tensor(swap)[:, None]
            pattern = torch.stack([torch.where(at, b, a), torch.where(at, a, b)])[None]
            one, two = METRICS[key].function(pattern)[0].double()
            apart.append(abs(float(two - one)))
        exact = np.mean(np.array(apart) >= apart[0] - 1e-6)
        assert found.p[key] == pytest.approx(exact, abs=0.04), key
        assert found.noise[key] == pytest.approx(np.quantile(apart, 0.95), rel=0.06), key


def test_exchange_test_finds_a_planted_difference_and_none_between_copies() -> None:
    a = drawn(N, 7)
    b = 0.4 * a + 0.6 * torch.eye(N)
    found = exchanged(a, b)
    assert found.p["self_token"] == 1 / 2_000 and found.rows == (N, N)
    assert set(exchanged(a, a.clone()).p.values()) == {1.0}


def test_exchange_test_of_two_texts_tests_only_means_over_rows() -> None:
    one, two = of_heads(drawn(N, 11)), of_heads(0.2 * drawn(13, 12) + 0.8 * torch.eye(13))
    sides = [chosen_heads((record, (0, 0))) for record in (one, two)]
    found = exchange_test(*sides, paired=False)
    assert found.rows == (N, 13) and found.p["self_token"] == 1 / 2_000
    assert "entropy" in found.p and "mutual_information" not in found.p


@pytest.mark.parametrize(
    ("rows", "paired", "metrics", "needed"), [(7, True, 1, 6), (7, True, 10, 9), (4, False, 10, 6)]
)
def test_rows_needed_is_where_the_most_unlikely_exchange_is_rare(
    rows, paired, metrics, needed
) -> None:
    found = Exchange({}, {}, (rows, rows), paired)
    assert found.rows_needed(metrics) == needed
    assert found.conclusive(metrics) == (rows >= needed)


def test_chosen_heads_have_the_metrics_and_likeness_of_the_whole_record() -> None:
    model = mv.load("tiny-gpt2")
    record = model.trace("The dog saw the cat and the cat saw it.", keep=("pattern", "z"))
    places = (0, 3), (2, 5)
    pair = chosen_heads(*((record, place) for place in places))
    assert pair.shape == (2, 1, *record.shape[2:])
    whole, own = measure(record), measure(pair)
    for key, values in own.items():
        close(values[:, 0], torch.stack([whole[key][place] for place in places]))
    for name in ("hellinger", "cka"):
        apart = head_similarity(record, name)
        assert float(head_similarity(pair, name)[0, 1]) == near(float(apart[3, 21]))
    some = chosen_heads((record, places[1]), most=5)
    close(some.pattern[0, 0], record[2, 5][:: -(-record.shape[2] // 5)])


def test_place_of_counts_from_the_end_and_refuses_what_is_not_there() -> None:
    record = mv.record(random_pattern(), list("abcdefg"))
    assert place_of(record, (-1, -HEADS)) == (LAYERS - 1, 0)
    with pytest.raises(ArgumentError, match=r"head must lie in 0\.\.2, got 3"):
        place_of(record, (0, 3))
