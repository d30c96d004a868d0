"""Lab 3: one head cannot keep two places apart, and too many heads are each too narrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention
from mha_viz.core.stored_runs import StoredRun
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import descend, initialised

N_NAMES, N_TOKENS = 32, 8
HEADS = (1, 2, 4, 8, 16)
N_SEEDS = 3  # runs of each
_BATCH, _N_UNSEEN, _N_PROBE = 128, 1_000, 64
_CURVE = 20  # points of an accuracy curve
N_EXAMPLES = 8
Point = tuple[int, float, float, float]  # step; first, second, both values right


class Texts(NamedTuple):
    """Some texts of the task.

    Args:
        names: (text, token), different ones in a text. values: (text, token).
        queried: (text, 2), the two names that are asked for. answer: (text, 2), their values.
        positions: (text, 2), where they stand.
    """

    names: Tensor
    values: Tensor
    queried: Tensor
    answer: Tensor
    positions: Tensor


def texts(count: int, n_values: int, random: torch.Generator) -> Texts:
    """Draw texts of 8 tokens, each with a name and a value, and a question for two of them.

    >>> some = texts(3, n_values=8, random=torch.Generator().manual_seed(0))
    >>> bool((some.values.gather(1, some.positions) == some.answer).all())
    True
    """
    names = torch.rand(count, N_NAMES, generator=random).argsort(-1)[:, :N_TOKENS]
    values = torch.randint(n_values, (count, N_TOKENS), generator=random)
    positions = torch.rand(count, N_TOKENS, generator=random).argsort(-1)[:, :2]
    return Texts(names, values, names.gather(1, positions), values.gather(1, positions), positions)


class Reader(nn.Module):
    """One attention layer that answers the question, and a linear map that reads it.

    x = name + value; the question = first + second. Name and value are added, as tokens and
    positions are in a transformer: W_V cannot keep the value of one place apart from another's.
    """

    def __init__(self, d_model: int, n_heads: int, n_values: int, random: torch.Generator) -> None:
        super().__init__()
        self.name = nn.Parameter(torch.randn(N_NAMES, d_model, generator=random))
        self.value = nn.Parameter(torch.randn(n_values, d_model, generator=random))
        self.first = nn.Parameter(torch.randn(N_NAMES, d_model, generator=random))
        self.second = nn.Parameter(torch.randn(N_NAMES, d_model, generator=random))
        attention = MultiHeadAttention(d_model, n_heads, bias=False)
        self.attention = initialised(attention, d_model, random)
        self.read = nn.Parameter(torch.randn(d_model, 2 * n_values, generator=random))
        self.read.data /= d_model**0.5

    def forward(self, batch: Texts) -> tuple[Float[Tensor, "text 2 value"], AttentionOutput]:
        """Return logits of both answers, and the attention output."""
        question = self.first[batch.queried[:, 0]] + self.second[batch.queried[:, 1]]
        tokens = self.name[batch.names] + self.value[batch.values]
        looked = self.attention(question[:, None], tokens)
        return (looked.output[:, 0] @ self.read).unflatten(-1, (2, -1)), looked


@dataclass(frozen=True)
class Run:
    """The training of a layer of n_heads, over some seeds.

    Args:
        n_parameters: of the attention layer. steps: at which accuracy was taken.
        first, second, both: (seed, step), share of 1,000 unseen texts whose value is right.
        shares: (head, 3), mean weight on the first place, the second, and all others; one seed.
        score_ranks, weight_ranks: numerical rank of each head's Q K^T, for 64 questions and
            64 tokens, and of its softmax; one seed.
        examples: some unseen texts. answers: (text, 2), the answers to them. looked: (text, head,
            token), the weights; one seed.
    """

    n_heads: int
    d_head: int
    n_parameters: int
    steps: list[int]
    first: Tensor
    second: Tensor
    both: Tensor
    shares: Tensor
    score_ranks: list[int]
    weight_ranks: list[int]
    examples: Texts
    answers: Tensor
    looked: Tensor


def learn(
    heads: Sequence[int],
    n_steps: int = 400,
    seed: int = 0,
    n_seeds: int = N_SEEDS,
    d_model: int = 16,
    n_values: int = 8,
    on_step: Callable[[int], None] | None = None,
) -> dict[int, Run]:
    """Train a layer for each number of heads, with the same width and as many parameters.

    Args:
        heads: numbers of heads, each of which divides d_model.
        n_steps: of Adam, 128 new texts each, 20..2000.
        seed: of the first of the runs.
        n_seeds: how often, 1..10.
        d_model: width of the layer, 1..64.
        n_values: that a token may have, 2..16.
        on_step: called with the number of steps done in all; there are len(heads) * n_seeds *
            n_steps.

    Raises:
        ArgumentError: sizes outside of that. ShapeError: heads that do not divide the width.

    >>> run = learn([2], n_steps=20, n_seeds=1)[2]
    >>> run.d_head, run.n_parameters, tuple(run.both.shape)
    (8, 1024, (1, 20))
    """
    if not (heads and 20 <= n_steps <= 2_000 and 1 <= n_seeds <= 10):
        raise ArgumentError("The lab takes 20 to 2000 steps and 1 to 10 seeds, for some heads.")
    if not (1 <= d_model <= 64 and 2 <= n_values <= 16):
        raise ArgumentError(f"d_model is 1..64 and values 2..16, got {d_model} and {n_values}.")
    runs, before = {}, 0
    for n_heads in heads:
        curves, readers = [], []
        for number in range(n_seeds):
            random = torch.Generator().manual_seed(1_000 * seed + number)
            readers.append(Reader(d_model, n_heads, n_values, random))
            curves.append(_train(readers[-1], n_steps, n_values, random, on_step, before))
            before += n_steps
        runs[n_heads] = _summarized(readers[0], n_values, [step for step, *_ in curves[0]], curves)
    return runs


def _train(
    reader: Reader,
    n_steps: int,
    n_values: int,
    random: torch.Generator,
    on_step: Callable[[int], None] | None,
    before: int,
) -> list[Point]:
    """Train with Adam, its rate falling to 0; return the accuracies on the way."""

    def loss() -> Tensor:
        batch = texts(_BATCH, n_values, random)
        return F.cross_entropy(reader(batch)[0].flatten(0, 1), batch.answer.flatten())

    adam = torch.optim.Adam(reader.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 1 - step / n_steps)
    every = n_steps // _CURVE
    curve: list[Point] = []
    for step in descend(adam, loss, n_steps, schedule):
        if step % every == 0 and len(curve) < _CURVE:
            curve.append((step, *_accuracy(reader, n_values)))
            if on_step is not None:
                on_step(before + step)
    return curve


def _unseen(count: int, n_values: int) -> Texts:
    return texts(count, n_values, torch.Generator().manual_seed(2**31))


@torch.no_grad()
def _accuracy(reader: Reader, n_values: int) -> tuple[float, float, float]:
    unseen = _unseen(_N_UNSEEN, n_values)
    right = (reader(unseen)[0].argmax(-1) == unseen.answer).double()
    first, second = right.mean(0).tolist()
    return first, second, float(right.prod(-1).mean())


@torch.no_grad()
def _summarized(reader: Reader, n_values: int, steps: list[int], curves: list[list[Point]]) -> Run:
    unseen = _unseen(_N_UNSEEN, n_values)
    logits, looked = reader(unseen)
    assert looked.pattern is not None
    pattern = looked.pattern[:, :, 0]  # (text, head, token)
    at = unseen.positions[:, None].expand(-1, pattern.shape[1], -1)
    queried = pattern.gather(-1, at).mean(0)
    shares = torch.cat([queried, 1 - queried.sum(-1, keepdim=True)], -1)
    attention = reader.attention
    sizes = attention.n_heads, attention.d_head, sum(p.numel() for p in attention.parameters())
    first, second, both = torch.tensor(curves)[..., 1:].unbind(-1)
    few = Texts(*(part[:N_EXAMPLES] for part in unseen))
    shown = logits.argmax(-1)[:N_EXAMPLES], pattern[:N_EXAMPLES]
    scores, weights = ranks(reader, n_values)
    return Run(*sizes, steps, first, second, both, shares, scores, weights, few, *shown)


@torch.no_grad()
def ranks(reader: Reader, n_values: int) -> tuple[list[int], list[int]]:
    """Compute the ranks of each head's scores and weights, 64 questions by 64 tokens, in float64.

    Q and K are d_head wide, so Q K^T has rank d_head at most; softmax is not linear and can
    raise it.

    Source: Bhojanapalli et al. 2020, "Low-Rank Bottleneck in Multi-head Attention Models".
    """
    probe = _unseen(_N_PROBE, n_values)
    question = reader.first[probe.queried[:, 0]] + reader.second[probe.queried[:, 1]]
    tokens = reader.name[probe.names[:, 0]] + reader.value[probe.values[:, 0]]
    weights = {name: weight.double() for name, weight in reader.attention.named_parameters()}
    looked: AttentionOutput = torch.func.functional_call(
        reader.attention, weights, (question.double(), tokens.double())
    )
    assert looked.scores is not None and looked.pattern is not None
    return (
        torch.linalg.matrix_rank(looked.scores).tolist(),
        torch.linalg.matrix_rank(looked.pattern).tolist(),
    )


STORED = (StoredRun("two-places", (400, 0, 16, 8), dict[int, Run], partial(learn, HEADS)),)
