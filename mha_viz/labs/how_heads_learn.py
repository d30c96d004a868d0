"""Lab 9: a tiny model learns induction, and everything about its heads is recorded on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mha_viz.core.metrics import METRICS
from mha_viz.core.multi_head import AttentionOutput, MultiHeadAttention
from mha_viz.errors import ArgumentError
from mha_viz.labs.own_reflection_learning import sinusoids

D_MODEL, D_VOCAB, N_CTX, N_LAYERS = 64, 32, 32, 2
PERIODS = (4, 16)  # of a training text, shortest and longest
HEADS = (1, 2, 4, 8)
FORMED = 0.5  # induction score from which a head counts as an induction head
N_SNAPSHOTS, N_RECORDS = 40, 120  # at most
MEASURED = ("induction", "previous_token", "entropy")
_BATCH, _PROBE, _WARMUP = 32, 8, 50
FIRST_FITTED = 10  # step from which a rate is fitted: before, it is the start that shows
NEAR, STRAIGHT = 0.1, 0.8  # how near 0.5 an exponent is, and how straight a line, that holds


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
        self.layers = nn.ModuleList(
            MultiHeadAttention(D_MODEL, n_heads, bias=False) for _ in range(N_LAYERS)
        )
        bound = math.sqrt(3 / D_MODEL)  # Xavier, from our own generator
        with torch.no_grad():
            for weight in self.layers.parameters():
                weight.uniform_(-bound, bound, generator=random)
        self.unembed = nn.Parameter(torch.randn(D_MODEL, D_VOCAB, generator=random))
        self.unembed.data /= math.sqrt(D_MODEL)

    @property
    def attention(self) -> list[MultiHeadAttention]:
        """The attention of each layer."""
        return [layer for layer in self.layers if isinstance(layer, MultiHeadAttention)]

    def forward(self, ids: Int[Tensor, "text token"]) -> tuple[Tensor, list[Tensor]]:
        """Logits (text, token, d_vocab) and each layer's pattern (text, head, query, key)."""
        residual = self.embed[ids] + self.position[: ids.shape[1]]
        patterns = []
        for layer in self.layers:
            looked: AttentionOutput = layer(F.layer_norm(residual, (D_MODEL,)), causal=True)
            residual = residual + looked.output
            assert looked.pattern is not None
            patterns.append(looked.pattern)
        return F.layer_norm(residual, (D_MODEL,)) @ self.unembed, patterns


def repeated(
    count: int, periods: tuple[int, int], random: torch.Generator
) -> tuple[Int[Tensor, "text token"], Int[Tensor, "text 1"]]:
    """Random tokens, all different, said again and again; the period varies from text to text.

    Returns:
        ids, and each text's period. From place `period` on every token can be known.

    >>> ids, period = repeated(1, (4, 4), torch.Generator().manual_seed(0))
    >>> bool((ids[0, :4] == ids[0, 4:8]).all())
    True
    """
    period = torch.randint(periods[0], periods[1] + 1, (count, 1), generator=random)
    order = torch.rand(count, D_VOCAB, generator=random).argsort(-1)
    return order.gather(1, torch.arange(N_CTX)[None] % period), period


@dataclass
class Film:
    """What was written down while a model learned.

    Args:
        steps: at which numbers were taken.
        loss: nats, on the places that can be known.
        accuracy: share of them that is right.
        gradient: norm of the whole gradient.
        head_gradient: (step, layer, head), norm of dL / dW_Q of that head.
        update: (step, layer, head), norm of the change of W_Q in this step over the norm of W_Q.
        scores: by metric, (step, layer, head), on 8 texts never trained on.
        snapshots: steps of `patterns`, (snapshot, layer, head, query, key), on one such text.
        ids: that text, period 16.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    head_gradient: list[Tensor] = field(default_factory=list)
    update: list[Tensor] = field(default_factory=list)
    scores: dict[str, list[Tensor]] = field(default_factory=lambda: {key: [] for key in MEASURED})
    snapshots: list[int] = field(default_factory=list)
    patterns: list[Tensor] = field(default_factory=list)
    ids: tuple[int, ...] = ()

    @property
    def formed(self) -> int | None:
        """The first step at which some head counts as an induction head; None if there is none."""
        best = (float(score.max()) for score in self.scores["induction"])
        return next((t for t, score in zip(self.steps, best, strict=True) if score >= FORMED), None)

    @property
    def best_head(self) -> tuple[int, int]:
        """(layer, head) with the largest induction score at the end."""
        last = self.scores["induction"][-1]
        layer, head = divmod(int(last.argmax()), last.shape[1])
        return layer, head


def film(
    n_heads: int = 4,
    n_steps: int = 400,
    lr: float = 0.003,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
) -> Film:
    """Train a tiny model to go on with repeated random tokens, and keep a film of its heads.

    Loss is taken where the answer can be known: after the first period. Adam with a warm-up of 50
    steps, 32 new texts of 32 tokens in each.

    Args:
        n_heads: in each of two layers; divides 64.
        n_steps: of Adam, 20..5000.
        lr: its learning rate, above 0 and at most 1.
        seed: of the weights and of the training texts.
        on_step: called with the number of steps done, now and then.

    Raises:
        ArgumentError: sizes outside of that, or a loss that is no longer a number.
        ShapeError: heads that do not divide the width.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads".

    >>> film(n_heads=2, n_steps=20).loss[0] > 3
    True
    """
    if not (20 <= n_steps <= 5_000 and 0 < lr <= 1):
        raise ArgumentError(f"20 to 5000 steps, a rate of (0, 1]; got {n_steps} and {lr}.")
    random = torch.Generator().manual_seed(seed)
    model = TinyTransformer(n_heads, random)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
    probe, _ = repeated(_PROBE, (PERIODS[1], PERIODS[1]), torch.Generator().manual_seed(2**31))
    found = Film(ids=tuple(probe[0].tolist()))
    record, snapshot = -(-n_steps // N_RECORDS), -(-n_steps // (N_SNAPSHOTS - 1))
    for step in range(n_steps + 1):
        last = step == n_steps
        if step % snapshot == 0 or last:
            _keep(model, probe, step, found)
        loss = _gradients(model, random, found if step % record == 0 or last else None)
        if not math.isfinite(loss):
            raise ArgumentError(f"The loss is no number after {step} steps: take a smaller rate.")
        before = _queries(model)
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / _WARMUP)
        optimizer.step()
        if step % record == 0 or last:
            _write(model, probe, step, before, found)
            if on_step is not None:
                on_step(step)
    return found


def _gradients(model: TinyTransformer, random: torch.Generator, found: Film | None) -> float:
    """One batch's loss and gradients; its numbers are written down where there is a film."""
    ids, period = repeated(_BATCH, PERIODS, random)
    logits, _ = model(ids)
    known = torch.arange(1, N_CTX)[None] >= period
    logits, answers = logits[:, :-1][known], ids[:, 1:][known]
    loss = F.cross_entropy(logits, answers)
    model.zero_grad()
    loss.backward()
    if found is not None:
        found.loss.append(float(loss.detach()))
        found.accuracy.append(float((logits.argmax(-1) == answers).double().mean()))
        squares = [w.grad.square().sum() for w in model.parameters() if w.grad is not None]
        found.gradient.append(float(torch.stack(squares).sum().sqrt()))
    return float(loss.detach())


@torch.no_grad()
def _write(model: TinyTransformer, probe: Tensor, step: int, before: Tensor, found: Film) -> None:
    found.steps.append(step)
    gradients = torch.stack(
        [W.grad for W in (layer.W_Q for layer in model.attention) if W.grad is not None]
    )
    found.head_gradient.append(gradients.norm(dim=(-2, -1)))
    now = _queries(model)
    found.update.append((now - before).norm(dim=(-2, -1)) / before.norm(dim=(-2, -1)))
    _, patterns = model(probe)
    for key in MEASURED:
        more = {"period": PERIODS[1]} if key == "induction" else {}
        # A metric takes any two axes before query and key: texts stand in the place of layers.
        found.scores[key].append(
            torch.stack([METRICS[key].function(p, **more).mean(0) for p in patterns])
        )


@torch.no_grad()
def _keep(model: TinyTransformer, probe: Tensor, step: int, found: Film) -> None:
    _, patterns = model(probe[:1])
    found.snapshots.append(step)
    found.patterns.append(torch.cat(patterns))


def _queries(model: TinyTransformer) -> Float[Tensor, "layer head d_model d_head"]:
    return torch.stack([layer.W_Q.detach() for layer in model.attention])


@dataclass(frozen=True)
class Rate:
    """A power law fitted to numbers over steps: y = factor * t^(-exponent).

    Args:
        straight: R^2 of the line in the logarithms, at most 1.
        factor_root: the factor of the best line with exponent 1/2.
    """

    exponent: float
    factor: float
    straight: float
    factor_root: float

    @property
    def holds(self) -> bool:
        """Whether this is 1 / sqrt(t): exponent within 0.1 of 0.5, and R^2 of 0.8 at least."""
        return abs(self.exponent - 0.5) <= NEAR and self.straight >= STRAIGHT


def rate(steps: Sequence[int], values: Sequence[float], first: int = FIRST_FITTED) -> Rate | None:
    """Least squares of ln y on ln t, over the steps from `first` on with y above 0.

    Returns:
        The fit; None with fewer than 5 such numbers.

    >>> fitted = rate(range(1, 100), [t ** -0.5 for t in range(1, 100)])
    >>> round(fitted.exponent, 6), fitted.holds
    (0.5, True)
    """
    pairs = [(t, y) for t, y in zip(steps, values, strict=True) if t >= max(first, 1) and y > 0]
    if len(pairs) < 5:
        return None
    x, y = torch.tensor(pairs, dtype=torch.float64).log().unbind(-1)
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    left = (dy - slope * dx).square().sum()
    total = dy.square().sum()
    return Rate(
        exponent=-slope,
        factor=math.exp(float(y.mean() - slope * x.mean())),
        straight=float(1 - left / total) if total > 0 else 0.0,
        factor_root=math.exp(float((y + x / 2).mean())),
    )
