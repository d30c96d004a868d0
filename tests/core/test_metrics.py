"""Every per-head number against a value worked out by hand, and against scipy where it has one."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from mha_viz.core import metrics
from mha_viz.core.metrics import position, spread
from mha_viz.core.metrics.blocks import Texts, Visible
from mha_viz.core.metrics.position import repeated_tokens
from mha_viz.errors import ArgumentError, DTypeError, MhaVizError, ShapeError
from tests.core.patterns import (
    HEADS,
    KEYS,
    LAYERS,
    N,
    head,
    random_pattern,
    uniform,
)
from tests.making.comparing import close

THREE = head([1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5])


def test_a_separator_is_no_word_that_occurs_again() -> None:
    ids, special = torch.tensor([5, 9, 5]), torch.tensor([True, False, True])
    with pytest.raises(ArgumentError, match="occurs twice"):
        position.duplicate_token(THREE, ids=ids, is_special=special)
    assert "duplicate_token" in metrics.head_table(THREE, metrics.TokenFacts(ids))
    assert "duplicate_token" not in metrics.head_table(THREE, metrics.TokenFacts(ids, special))
    four = torch.tensor([5, 9, 9, 5])
    pattern = torch.full((1, 1, 4, 4), 0.25)
    pattern[..., 0, 3] = 1.0  # [SEP] to [SEP]
    got = position.duplicate_token(pattern, ids=four, is_special=four == 5)
    close(got, 0.25)
    assert position.duplicate_token(pattern, ids=four) > 0.25


def test_a_repetition_outside_the_window_is_none() -> None:
    pattern, ids = random_pattern(), torch.tensor([1, 2, 3, 1, 1, 4, 5])
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    allowed = torch.stack([causal.triu(-1), causal.triu(-3)])
    got = position.duplicate_token(pattern, ids=ids, allowed=allowed)
    close(got[0], pattern[0, :, 4, 3])
    close(got[1], (pattern[1, :, 3, 0] + pattern[1, :, 4, 3]) / 2)
    nearer = torch.stack([causal.triu(), causal.triu(-3)])
    assert position.duplicate_token(pattern, ids=ids, allowed=nearer)[0].isnan().all()


OF_PATTERN = [
    key
    for key, metric in metrics.METRICS.items()
    if metric.of == "head" and not {"outputs", "sink", "period"} & metric.needs
]


@pytest.mark.parametrize("name", OF_PATTERN)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_half_patterns_are_added_up_in_float32(name: str, dtype: torch.dtype) -> None:
    pattern = random_pattern(101).to(dtype)
    extra = {
        "special_token": {"is_special": torch.arange(101) % 3 == 0},
        "separator_token": {"is_special": torch.arange(101) % 3 == 0},
        "duplicate_token": {"ids": torch.arange(101) % 29},
    }.get(name, {})
    function = metrics.METRICS[name].function
    got = function(pattern, **extra)
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    # the weights were rounded already; nothing more may be lost
    close(got.double(), function(pattern.double(), **extra))


@pytest.mark.parametrize("name", ["entropy", "normalized_entropy", "mutual_information"])
def test_entropies_have_gradients(name: str) -> None:
    function = getattr(spread, name)
    scores = random_pattern(3, 5)[:1].double().log().requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: function(scores.softmax(-1)), scores)
    close(function(scores.softmax(-1)).detach(), function(scores.detach().softmax(-1)))


def test_looking_at_everything_alike() -> None:
    pattern = uniform()
    close(spread.entropy(pattern), math.log(N))
    close(spread.normalized_entropy(pattern), 1.0)
    for n in (3, 11, 101, 499):  # in floats the share may come out above 1
        assert spread.normalized_entropy(uniform(5, n)).max() <= 1.0
    for n in (5, 7, 10, 31, 100):  # in floats, rows that are alike may differ from their mean
        row = torch.randn(n, generator=torch.Generator().manual_seed(n)).mul(3).softmax(-1)
        for alike in (row, torch.full((n,), 1 / n)):
            assert spread.mutual_information(alike.expand(1, 1, n, n)) == 0
    close(spread.confidence(pattern), 1 / N)
    close(spread.keys_for_mass(pattern), N)  # 6/7 is short of 90 %
    close(position.distance(pattern), (N * N - 1) / (3 * N))
    for name in ("previous_token", "next_token", "self_token", "first_token"):
        close(metrics.METRICS[name].function(pattern), 1 / N)
    close(position.special_token(pattern, is_special=torch.arange(N) < 2), 2 / N)


@pytest.mark.parametrize(
    ("n", "want"), [(2, 2), (5, 5), (10, 9), (11, 10), (20, 18), (100, 90), (2000, 1800)]
)
def test_sparsity_of_equal_weights_is_not_a_matter_of_rounding(n: int, want: int) -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        close(spread.keys_for_mass(uniform(3, n).to(dtype)), want)


@pytest.mark.parametrize("n", [769, 2053])
def test_sparsity_of_long_rows_by_a_loop(n: int) -> None:
    dice = torch.Generator().manual_seed(n)
    flat, sharp = torch.rand(2, n, generator=dice), torch.randn(2, n, generator=dice).mul(3).exp()
    some = sharp[0] * (torch.rand(n, generator=dice) < 0.03)  # most keys have no weight at all
    first = torch.cat([torch.full((7,), 30.0), flat[0, 7:]])
    steps = sharp[1].ceil()  # equal ones
    alike = (torch.rand(n, generator=dice) < 0.8).float()  # all of them equal, or nothing
    rows = [*flat, *sharp, some, first, steps, alike, flat[1].sort().values, sharp[1].sort().values]
    pattern = torch.stack([row / row.sum() for row in rows])
    counts = []
    for row in pattern.double().tolist():
        lightest = itertools.accumulate(sorted(row))
        counts.append(n - sum(held <= 0.1 + 4 * 2**-23 for held in lightest))
    close(spread.keys_for_mass(pattern[None, :, None]).flatten(), torch.tensor(counts).float())


def test_sparsity_counts_the_heaviest_first() -> None:
    pattern = head([0.05, 0.6, 0.05, 0.3])
    for share, want in ((0.5, 1), (0.6, 1), (0.61, 2), (0.9, 2), (0.91, 3), (1.0, 4)):
        close(spread.keys_for_mass(pattern, share=share), want)
    close(spread.keys_for_mass(head([0.89999, 0.10001])), 2)  # short of 90 %


def test_normalized_entropy_knows_what_a_row_may_see() -> None:
    lower = torch.ones(N, N).tril()
    evenly = (lower / lower.sum(-1, keepdim=True)).expand(LAYERS, HEADS, N, N)
    close(spread.normalized_entropy(evenly, causal=True), (N - 1) / N)  # row 0 sees one key
    close(spread.normalized_entropy(evenly, allowed=lower > 0), (N - 1) / N)
    assert (spread.normalized_entropy(evenly) < 0.8).all()
    with_masked_row = evenly * (torch.arange(N)[:, None] != 4)
    sighted = (lower > 0) & (torch.arange(N)[:, None] != 4)
    close(spread.normalized_entropy(with_masked_row, allowed=sighted), (N - 2) / N)
    with pytest.raises(ArgumentError, match="may not see"):
        spread.normalized_entropy(uniform(), causal=True)


@pytest.mark.parametrize(("query", "key"), [(3, 5), (5, 3)])
def test_causal_counts_from_the_first_key_in_cross_attention(query: int, key: int) -> None:
    lower = torch.ones(query, key).tril()
    evenly = (lower / lower.sum(-1, keepdim=True)).expand(1, 1, query, key)
    close(spread.normalized_entropy(evenly, causal=True), (query - 1) / query)


@pytest.mark.parametrize("start", [0, 1])
def test_a_perfect_induction_head(start: int) -> None:
    period, n = 5, 2 * 5 + start + 1
    pattern = torch.zeros(1, 2, n, n)
    pattern[..., 0] = 1.0
    for i in range(period):
        pattern[0, 1, start + period + i] = 0.0
        pattern[0, 1, start + period + i, start + i + 1] = 1.0
    close(metrics.induction(pattern, period=period, start=start), [[0.0, 1.0]])


P, CROSS = random_pattern(), random_pattern(5, KEYS)
M = metrics
WRONG: list[tuple[type[MhaVizError], str, Callable[[], object]]] = [
    (ShapeError, r"\(3, 7, 7\)", lambda: spread.entropy(P[0])),
    (ShapeError, "empty", lambda: spread.confidence(P[..., :0])),
    (DTypeError, "int64", lambda: position.first_token(P.long())),
    (ArgumentError, "2 tokens", lambda: position.previous_token(P[..., :1, :1])),
    (ShapeError, "is_special", lambda: position.special_token(CROSS, is_special=torch.ones(N) > 0)),
    (DTypeError, "is_special", lambda: position.special_token(P, is_special=torch.arange(N))),
    (ShapeError, "ids", lambda: position.duplicate_token(P, ids=torch.arange(6))),
    (DTypeError, "ids", lambda: position.duplicate_token(P, ids=torch.ones(N))),
    (ArgumentError, "twice", lambda: position.duplicate_token(P, ids=torch.arange(N))),
    (ShapeError, "allowed", lambda: spread.normalized_entropy(P, allowed=torch.ones(N) > 0)),
    (DTypeError, "allowed", lambda: spread.normalized_entropy(P, allowed=torch.ones(N, N))),
    (ArgumentError, "share.*1.5", lambda: spread.keys_for_mass(P, share=1.5)),
    (ArgumentError, "period 4", lambda: M.induction(P, period=4)),
    (ArgumentError, "start 2", lambda: M.induction(P, period=3, start=2)),
    (ArgumentError, "5 queries", lambda: position.distance(CROSS)),
    (ArgumentError, "5 queries", lambda: position.previous_token(CROSS)),
    (
        ArgumentError,
        "self-attention",
        lambda: position.duplicate_token(CROSS, ids=torch.zeros(KEYS).long()),
    ),
    (ArgumentError, "self-attention", lambda: M.induction(CROSS, period=2)),
]


@pytest.mark.parametrize(("error", "named", "call"), WRONG)
def test_metrics_refuse_and_name_the_argument(
    error: type[MhaVizError], named: str, call: Callable[[], object]
) -> None:
    with pytest.raises(error, match=named):
        call()


BATCH, LENGTH = 5, 13


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_special", [False, True])
def test_repeated_tokens_counts_each_token_once(causal: bool, with_special: bool) -> None:
    random = torch.Generator().manual_seed(7)
    ids = torch.randint(0, 7, (BATCH, LENGTH), generator=random)
    special = torch.rand(BATCH, LENGTH, generator=random) < 0.3
    seen = torch.rand(BATCH, LENGTH, LENGTH, generator=random) < 0.6
    seen = seen.tril() if causal else seen
    texts = Texts(torch.full((BATCH,), LENGTH), ids, special if with_special else None, causal)
    expected = [
        len(
            {
                int(ids[text, query])
                for query in range(LENGTH)
                for key in range(LENGTH)
                if key != query
                and seen[text, query, key]
                and ids[text, query] == ids[text, key]
                and not (with_special and special[text, query])
            }
        )
        for text in range(BATCH)
    ]
    assert repeated_tokens(Visible.of(texts, seen), texts).tolist() == expected
    assert len(set(expected)) > 1


def test_entropies_are_of_what_is_left_of_a_row() -> None:
    pattern = torch.tensor([[[[0.37, 0.37], [0.37, 0.37]]]])
    close(spread.entropy(pattern), math.log(2))
    close(spread.normalized_entropy(pattern), 1.0)
    close(spread.entropy(0.1 * random_pattern()), spread.entropy(random_pattern()))
    close(spread.entropy(torch.zeros(1, 1, 2, 2)), 0.0)
    with pytest.raises(ArgumentError, match="may not see"):
        spread.normalized_entropy(pattern, causal=True)


@pytest.mark.parametrize("left", [0.998, 0.97])
def test_entropies_of_rows_that_lack_little_are_of_what_is_left(left: float) -> None:
    pattern = random_pattern()
    for measured in (spread.entropy, spread.mutual_information):
        close(measured(left * pattern), measured(pattern), 1e-5)


def test_rows_of_zeros_tell_nothing() -> None:
    alike = torch.full((1, 1, 5, 5), 0.2)
    alike[..., :2, :] = 0.0
    close(spread.mutual_information(alike), 0.0)
    apart = torch.eye(5)[None, None].clone()
    apart[..., :2, :] = 0.0
    close(spread.mutual_information(apart), math.log(3))
    close(spread.mutual_information(torch.zeros(1, 1, 5, 5)), 0.0)


def test_information_of_rows_of_less_than_1_is_that_of_the_joint_distribution() -> None:
    pattern = random_pattern() * torch.linspace(0.3, 1.0, N)[:, None]
    joint = pattern.double() / pattern.double().sum((-2, -1), keepdim=True)
    h = [torch.special.entr(joint.sum(axes)).sum(-1) for axes in (-2, -1)]
    want = h[0] + h[1] - torch.special.entr(joint).sum((-2, -1))
    close(spread.mutual_information(pattern), want)
