"""A transformer of two layers of attention that learns induction, and a film of its training."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.lr_scheduler import LambdaLR

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import (
    descend,
    initialised,
    normed,
    sinusoids,
    split_by_name,
    weights_of,
)

D_MODEL, D_VOCAB, N_CTX, N_LAYERS = 64, 32, 32, 2
PERIODS = (4, 16)  # of a training text, shortest and longest
EMBEDDINGS = ("embed", "position")  # parameters with a row for each token
N_TEXTS = 32  # of `loss_at`: the same for all weights, none of them trained on
Texts = tuple[Int[Tensor, "text token"], Int[Tensor, "text 1"]]  # ids, and each text's period
FORMED = 0.5  # induction score from which a head counts as an induction head
N_SNAPSHOTS, N_RECORDS = 40, 120  # at most
MEASURED: dict[str, Callable[..., Tensor]] = {
    "induction": partial(METRICS["induction"].function, period=PERIODS[1]),
    "previous": METRICS["previous_token"].function,
    "entropy": METRICS["entropy"].function,
}
WARMUP = 50  # steps, of Adam alone
OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], int]] = {
    "adam": (partial(torch.optim.Adam, betas=(0.9, 0.98)), WARMUP),
    "sgd": (torch.optim.SGD, 1),
}
_BATCH, _PROBE = 32, 8
MIN_STEPS = 20  # steps of a film
Settings = tuple[int, int, float, int, str]  # of a run: heads, steps, rate, seed and optimizer


class TinyTransformer(nn.Module):
    """Two layers of causal attention and nothing between them: no MLP, no biases.

    Args:
        n_heads: in each layer. random: all weights come from it.

    Source: the attention-only models of Elhage et al. 2021; LayerNorm has no parameters here.
    """

    def __init__(self, n_heads: int, random: torch.Generator) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.randn(D_VOCAB, D_MODEL, generator=random) / 2)
        self.position = nn.Parameter(sinusoids(N_CTX, D_MODEL) / 2)
        layers = [MultiHeadAttention(D_MODEL, n_heads, bias=False) for _ in range(N_LAYERS)]
        self.layers = initialised(nn.ModuleList(layers), D_MODEL, random)
        self.unembed = nn.Parameter(torch.randn(D_MODEL, D_VOCAB, generator=random))
        self.unembed.data /= math.sqrt(D_MODEL)

    def forward(self, ids: Int[Tensor, "text token"]) -> tuple[Tensor, list[Tensor]]:
        """Return logits (text, token, d_vocab) and patterns (text, head, query, key)."""
        residual = self.embed[ids] + self.position[: ids.shape[1]]
        patterns = []
        for layer in self.layers:
            attention: AttentionOutput = layer(normed(residual), causal=True)
            residual = residual + attention.output
            assert attention.pattern is not None
            patterns.append(attention.pattern)
        return normed(residual) @ self.unembed, patterns


def repeat_tokens(count: int, periods: tuple[int, int], random: torch.Generator) -> Texts:
    """Draw random tokens, all different and repeated; the period varies from text to text.

    Returns:
        ids, and each text's period. From place `period` on every token can be known.

    >>> ids, period = repeat_tokens(1, (4, 4), torch.Generator().manual_seed(0))
    >>> bool((ids[0, :4] == ids[0, 4:8]).all())
    True
    """
    period = torch.randint(periods[0], periods[1] + 1, (count, 1), generator=random)
    order = torch.rand(count, D_VOCAB, generator=random).argsort(-1)
    return order.gather(1, torch.arange(N_CTX)[None] % period), period


def loss_of(
    model: TinyTransformer, texts: Texts, parts: dict[str, Tensor] | None = None
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return mean loss (nats) and accuracy on the tokens that can be predicted.

    With `parts`, by name and in their precision, in the place of the model's own weights.
    """
    ids, period = texts
    logits, _ = functional_call(model, parts or {}, (ids,))
    predictable = torch.arange(1, N_CTX)[None] >= period
    logits, answers = logits[:, :-1][predictable], ids[:, 1:][predictable]
    return F.cross_entropy(logits, answers), (logits.argmax(-1) == answers).double().mean()


def loss_at(n_heads: int, weights: Float[Tensor, " weight"]) -> Float[Tensor, ""]:
    """Return the loss of a model with these weights on texts never trained on."""
    model = TinyTransformer(n_heads, torch.Generator())
    texts = repeat_tokens(N_TEXTS, PERIODS, torch.Generator().manual_seed(2**33))
    return loss_of(model, texts, split_by_name(model, weights))[0]


@dataclass(frozen=True)
class Film:
    """The record of a training run.

    Args:
        numbers: by name, (step,) or (step, layer, head), at the recorded steps.
            step: their numbers. loss: nats, and accuracy: share of the predictable tokens.
            gradient_norm: of the whole gradient, of this step's texts.
            squared: <gradient, gradient on 32 other texts>: its mean over texts is ||grad L||^2,
            which that of `gradient_norm`^2 is not: chance in the choice of texts adds to it.
            rate: eta, the learning rate of this step.
            off_rule: the largest |W_after - (W - eta dL/dW)| over all weights.
            gradient: norm of dL / dW_Q. update: norm of the change of W_Q over that of W_Q.
            entry: (step, layer, head, 3): W_Q[0, 0] before the step, its gradient, and after.
            induction, previous, entropy: metrics on 8 texts never trained on, after the step.
        patterns: by step, from before it: (layer, head, query, key) on one such text, in half
            precision.
        weights: by step, from before it: of the first, the middle and the last of these.
        ids: that text, period 16.
    """

    numbers: dict[str, Tensor]
    patterns: dict[int, Tensor]
    weights: dict[int, Tensor]
    ids: tuple[int, ...]

    @property
    def formed(self) -> int | None:
        """The first step at which some head counts as an induction head; None if there is none."""
        formed = self.numbers["induction"].amax((1, 2)) >= FORMED
        return int(self.numbers["step"][formed][0]) if formed.any() else None

    @property
    def best_head(self) -> tuple[int, int]:
        """(layer, head) with the largest induction score at the end."""
        last = self.numbers["induction"][-1]
        layer, head = divmod(int(last.argmax()), last.shape[1])
        return layer, head


def film(
    n_heads: int = 4,
    n_steps: int = 400,
    lr: float = 0.003,
    seed: int = 0,
    optimizer: str = "adam",
    on_step: Callable[[int], None] = lambda step: None,
    *,
    all_weights: bool = False,
) -> Film:
    """Train a tiny model to continue repeated random tokens, and keep a film of its heads.

    Loss is taken where the answer can be known: after the first period. 32 new texts of 32 tokens
    in each step.

    Args:
        n_heads: in each of two layers; divides 64.
        n_steps: of the optimizer, 20..5000.
        lr: its learning rate, above 0 and at most 1.
        seed: of the weights and of the training texts.
        optimizer: "adam", whose rate grows over 50 steps, or "sgd": W <- W - lr dL/dW.
        on_step: called with the number of steps done, now and then.
        all_weights: those of every pattern, which are some megabytes.

    Raises:
        ArgumentError, ShapeError: sizes outside of that, another optimizer, or a loss that is NaN.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads".

    >>> float(film(n_heads=2, n_steps=20).numbers["loss"][0]) > 3
    True
    """
    if not (MIN_STEPS <= n_steps <= 5_000 and 0 < lr <= 1):
        raise ArgumentError(f"20 to 5000 steps, a rate of (0, 1]; got {n_steps} and {lr}.")
    if optimizer not in OPTIMIZERS:
        raise ArgumentError(f"optimizer must be one of {(*OPTIMIZERS,)}, got {optimizer!r}.")
    random, second_random = (torch.Generator().manual_seed(n) for n in (seed, 2**32 + seed))
    model = TinyTransformer(n_heads, random)
    make, warmup = OPTIMIZERS[optimizer]
    descent = make(model.parameters(), lr=lr)
    schedule = LambdaLR(descent, lambda step: min(1.0, (step + 1) / warmup))
    probe, _ = repeat_tokens(_PROBE, (PERIODS[1], PERIODS[1]), torch.Generator().manual_seed(2**31))
    recorded, pictured, stored = _moments(n_steps)
    batch: dict[str, Tensor] = {}
    rows, patterns, weights = [], {}, {}

    def loss() -> Tensor:
        loss, batch["accuracy"] = loss_of(model, repeat_tokens(_BATCH, PERIODS, random))
        batch["loss"] = loss.detach()
        return loss

    steps = descend(descent, loss, n_steps + 1, schedule)
    for step in range(n_steps + 1):
        before, rate = weights_of(model), descent.param_groups[0]["lr"]
        if step in pictured:
            patterns[step] = torch.cat(model(probe[:1])[1]).detach().half()
        if step in (pictured if all_weights else stored):
            weights[step] = before
        if step in recorded:
            second_loss, _ = loss_of(model, repeat_tokens(_BATCH, PERIODS, second_random))
            second = _joined(torch.autograd.grad(second_loss, list(model.parameters())))
        next(steps)
        gradient = _joined(w.grad for w in model.parameters())
        if not gradient.isfinite().all():
            raise ArgumentError(f"The loss is no number after {step} steps: take a smaller rate.")
        if step in recorded:
            numbers = {"step": torch.tensor(step), "squared": gradient @ second} | batch
            rows.append(numbers | _effect(model, before, gradient, rate) | _scores(model, probe))
            on_step(step)
    columns = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return Film(columns, patterns, weights, tuple(probe[0].tolist()))


def weights_at(
    settings: Settings, step: int, on_step: Callable[[int], None] = lambda step: None
) -> Float[Tensor, " weight"]:
    """Repeat a run up to a step, and return its weights from before that step.

    A film keeps few of its weights, since those of all patterns are some megabytes.
    """
    n_heads, _, lr, seed, optimizer = settings
    shorter = n_heads, max(step, MIN_STEPS), lr, seed, optimizer
    return film(*shorter, on_step, all_weights=True).weights[step]


def _moments(n_steps: int) -> tuple[set[int], set[int], set[int]]:
    """Return the steps that are recorded, of these those with patterns, and those with weights."""
    record = -(-n_steps // N_RECORDS)
    snapshot = record * -(-n_steps // ((N_SNAPSHOTS - 1) * record))
    recorded, pictured = ({*range(0, n_steps, every), n_steps} for every in (record, snapshot))
    return recorded, pictured, {0, snapshot * (n_steps // (2 * snapshot)), n_steps}


def _joined(parts: Iterable[Tensor | None]) -> Float[Tensor, " weight"]:
    return torch.cat([part.flatten() for part in parts if part is not None])


@torch.no_grad()
def _effect(
    model: TinyTransformer, before: Tensor, gradient: Tensor, rate: float
) -> dict[str, Tensor]:
    """Return what a step did to the weights."""
    after = weights_of(model)
    W, dW, now = (  # of all queries, (layer, head, d_model, d_head)
        torch.stack([split_by_name(model, vector)[f"layers.{i}.W_Q"] for i in range(N_LAYERS)])
        for vector in (before, gradient, after)
    )
    plain = before.double() - rate * gradient.double()
    return {
        "rate": torch.tensor(rate, dtype=torch.float64),
        "off_rule": (after.double() - plain).abs().max(),
        "gradient_norm": gradient.norm(),
        "gradient": dW.norm(dim=(-2, -1)),
        "update": (now - W).norm(dim=(-2, -1)) / W.norm(dim=(-2, -1)),
        "entry": torch.stack([part[..., 0, 0] for part in (W, dW, now)], -1),
    }


@torch.no_grad()
def _scores(model: TinyTransformer, probe: Tensor) -> dict[str, Tensor]:
    """Measure every head, as a mean over texts."""
    _, patterns = model(probe)
    # A metric takes any two axes before query and key: texts stand in the place of layers.
    return {
        name: torch.stack([metric(pattern).mean(0) for pattern in patterns])
        for name, metric in MEASURED.items()
    }
