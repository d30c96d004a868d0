"""Lab 9: a tiny model learns induction, and everything about its heads is recorded on the way."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.lr_scheduler import LambdaLR

from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import initialised, normed, sinusoids, weights_of, with_weights

D_MODEL, D_VOCAB, N_CTX, N_LAYERS = 64, 32, 32, 2
PERIODS = (4, 16)  # of a training text, shortest and longest
HEADS = (1, 2, 4, 8)
FORMED = 0.5  # induction score from which a head counts as an induction head
N_SNAPSHOTS, N_RECORDS = 40, 120  # at most
MEASURED = ("induction", "previous_token", "entropy")
ASPECTS = {"induction": "induction", "previous": "previous_token", "entropy": "entropy"}
ASPECTS |= {"gradient": "head_gradient", "update": "update"}
OPTIMIZERS = ("adam", "sgd")
WARMUP = 50  # steps, of Adam alone
_BATCH, _PROBE = 32, 8
MIN_STEPS = 20  # steps of a film
Settings = tuple[int, int, float, int, str]  # of a run: heads, steps, rate, seed and optimizer
Texts = tuple[Int[Tensor, "text token"], Int[Tensor, "text 1"]]  # ids, and each text's period


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

    @property
    def attention(self) -> list[MultiHeadAttention]:
        """The attention of each layer."""
        return [layer for layer in self.layers if isinstance(layer, MultiHeadAttention)]

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
    model: TinyTransformer, texts: Texts, weights: Float[Tensor, " weight"] | None = None
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return mean loss (nats) and accuracy on the tokens that can be predicted.

    With `weights`, in their precision, in the place of the model's own.
    """
    ids, period = texts
    parts = {} if weights is None else split_by_name(model, weights)
    logits, _ = functional_call(model, parts, (ids,))
    predictable = torch.arange(1, N_CTX)[None] >= period
    logits, answers = logits[:, :-1][predictable], ids[:, 1:][predictable]
    return F.cross_entropy(logits, answers), (logits.argmax(-1) == answers).double().mean()


def split_by_name(model: TinyTransformer, vector: Float[Tensor, " weight"]) -> dict[str, Tensor]:
    """Split one vector into weights of the names and shapes that this model has.

    >>> model = TinyTransformer(4, torch.Generator())
    >>> split_by_name(model, weights_of(model))["layers.1.W_Q"].shape
    torch.Size([4, 64, 16])
    """
    names, weights = zip(*model.named_parameters(), strict=True)
    parts = vector.split([weight.numel() for weight in weights])
    shaped = (part.view_as(weight) for part, weight in zip(parts, weights, strict=True))
    return dict(zip(names, shaped, strict=True))


def restore(n_heads: int, weights: Float[Tensor, " weight"]) -> TinyTransformer:
    """Make the model that has these weights, in their precision."""
    return with_weights(TinyTransformer(n_heads, torch.Generator()), weights)


@dataclass
class Film:
    """The record of a training run.

    Args:
        steps: at which numbers were taken.
        loss: nats, on the places that can be known.
        accuracy: share of them that is right.
        gradient: norm of the whole gradient, of this step's texts.
        squared: <gradient, gradient on 32 other texts>: its mean over texts is ||grad L||^2, which
            that of `gradient`^2 is not: chance in the choice of texts adds to it.
        head_gradient: (step, layer, head), norm of dL / dW_Q of that head.
        update: (step, layer, head), norm of the change of W_Q in this step over the norm of W_Q.
        rates: eta, the learning rate of this step.
        entry: (step, layer, head, 3): W_Q[0, 0] before the step, its gradient, W_Q[0, 0] after.
        off_rule: the largest |W_after - (W - eta dL/dW)| over all weights.
        scores: by metric, (step, layer, head), on 8 texts never trained on.
        snapshots: those of the steps that have `patterns`, (snapshot, layer, head, query, key),
            on one such text, in half precision.
        weights: by step, from before it: of the first, the middle and the last snapshot.
        ids: that text, period 16.
        n_heads: in each layer.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    squared: list[float] = field(default_factory=list)
    head_gradient: list[Tensor] = field(default_factory=list)
    update: list[Tensor] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    entry: list[Tensor] = field(default_factory=list)
    off_rule: list[float] = field(default_factory=list)
    scores: dict[str, list[Tensor]] = field(default_factory=lambda: {key: [] for key in MEASURED})
    snapshots: list[int] = field(default_factory=list)
    patterns: list[Tensor] = field(default_factory=list)
    weights: dict[int, Tensor] = field(default_factory=dict)
    ids: tuple[int, ...] = ()
    n_heads: int = 0

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


def series(film: Film, aspect: str) -> pd.DataFrame:
    """Return one of `ASPECTS` over the steps of a film: a column for each head."""
    if aspect == "loss":
        return pd.DataFrame({"step": film.steps, "loss": film.loss})
    field = ASPECTS[aspect]
    values = torch.stack(film.scores[field] if field in film.scores else getattr(film, field))
    heads = [head_name(*head) for head in np.ndindex(*values.shape[1:])]
    table = pd.DataFrame(values.flatten(1).double().numpy(), columns=heads)
    table.insert(0, "step", film.steps)
    return table


def largest_weights(
    patterns: Float[Tensor, "layer head query key"],
) -> pd.DataFrame:
    """Return a row for each head and query, with the key that has its largest weight."""
    weights, keys = patterns.max(-1)
    rows = [
        (head_name(layer, head), query, int(keys[layer, head, query]), float(weight))
        for (layer, head, query), weight in np.ndenumerate(weights.numpy())
    ]
    return pd.DataFrame(rows, columns=["head", "query", "key with the largest weight", "weight"])


def film(
    n_heads: int = 4,
    n_steps: int = 400,
    lr: float = 0.003,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
    optimizer: str = "adam",
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
        on_step: called with the number of steps done, now and then.
        optimizer: "adam", whose rate grows over 50 steps, or "sgd": W <- W - lr dL/dW.
        all_weights: those of every snapshot, which are some megabytes.

    Raises:
        ArgumentError, ShapeError: sizes outside of that, another optimizer, or a loss that is NaN.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads".

    >>> film(n_heads=2, n_steps=20).loss[0] > 3
    True
    """
    if not (MIN_STEPS <= n_steps <= 5_000 and 0 < lr <= 1):
        raise ArgumentError(f"20 to 5000 steps, a rate of (0, 1]; got {n_steps} and {lr}.")
    if optimizer not in OPTIMIZERS:
        raise ArgumentError(f"optimizer must be one of {OPTIMIZERS}, got {optimizer!r}.")
    random, second_batches = (torch.Generator().manual_seed(n) for n in (seed, 2**32 + seed))
    model = TinyTransformer(n_heads, random)
    descent: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    if optimizer == "adam":
        descent = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
    warmup = WARMUP if optimizer == "adam" else 1
    schedule = LambdaLR(descent, lambda step: min(1.0, (step + 1) / warmup))
    probe, _ = repeat_tokens(_PROBE, (PERIODS[1], PERIODS[1]), torch.Generator().manual_seed(2**31))
    run = Film(ids=tuple(probe[0].tolist()), n_heads=n_heads)
    record = -(-n_steps // N_RECORDS)
    snapshot = record * -(-n_steps // ((N_SNAPSHOTS - 1) * record))  # each is a record as well
    middle = snapshot * (n_steps // (2 * snapshot))
    for step in range(n_steps + 1):
        last = step == n_steps
        recorded = step % record == 0 or last
        if step % snapshot == 0 or last:
            _write_patterns(model, probe, step, run)
            if all_weights or last or step in (0, middle):
                run.weights[step] = weights_of(model)
        if recorded:
            second = _gradient(model, repeat_tokens(_BATCH, PERIODS, second_batches), None)
        gradient = _gradient(
            model, repeat_tokens(_BATCH, PERIODS, random), run if recorded else None
        )
        if not gradient.isfinite().all():
            raise ArgumentError(f"The loss is no number after {step} steps: take a smaller rate.")
        before, rate = weights_of(model), descent.param_groups[0]["lr"]
        descent.step()
        schedule.step()
        if recorded:
            run.steps.append(step)
            run.squared.append(float(gradient @ second))
            _write_step(model, before, gradient, rate, run)
            _write_scores(model, probe, run)
            if on_step is not None:
                on_step(step)
    return run


def weights_at(
    settings: Settings, step: int, on_step: Callable[[int], None] | None = None
) -> Float[Tensor, " weight"]:
    """Repeat a run up to a step, and return its weights from before that step.

    A film keeps few of its weights, since those of all snapshots are some megabytes.
    """
    n_heads, _, lr, seed, optimizer = settings
    short = max(step, MIN_STEPS)
    return film(n_heads, short, lr, seed, on_step, optimizer, all_weights=True).weights[step]


def _gradient(model: TinyTransformer, texts: Texts, run: Film | None) -> Float[Tensor, " weight"]:
    """Return the gradient on these texts as one vector; note the loss if there is a film."""
    loss, accuracy = loss_of(model, texts)
    model.zero_grad()
    loss.backward()
    gradient = torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])
    if run is not None:
        run.loss.append(float(loss.detach()))
        run.accuracy.append(float(accuracy))
        run.gradient.append(float(gradient.norm()))
    return gradient


def _write_step(
    model: TinyTransformer, before: Tensor, gradient: Tensor, rate: float, run: Film
) -> None:
    after = weights_of(model)
    run.rates.append(rate)
    plain = before.double() - rate * gradient.double()
    run.off_rule.append(float((after.double() - plain).abs().max()))
    W, dW, now = (  # of all queries, (layer, head, d_model, d_head)
        torch.stack([split_by_name(model, vector)[f"layers.{i}.W_Q"] for i in range(N_LAYERS)])
        for vector in (before, gradient, after)
    )
    run.head_gradient.append(dW.norm(dim=(-2, -1)))
    run.update.append((now - W).norm(dim=(-2, -1)) / W.norm(dim=(-2, -1)))
    run.entry.append(torch.stack([part[..., 0, 0] for part in (W, dW, now)], -1))


@torch.no_grad()
def _write_scores(model: TinyTransformer, probe: Tensor, run: Film) -> None:
    _, patterns = model(probe)
    for key in MEASURED:
        more = {"period": PERIODS[1]} if key == "induction" else {}
        # A metric takes any two axes before query and key: texts stand in the place of layers.
        run.scores[key].append(
            torch.stack([METRICS[key].function(p, **more).mean(0) for p in patterns])
        )


@torch.no_grad()
def _write_patterns(model: TinyTransformer, probe: Tensor, step: int, run: Film) -> None:
    _, patterns = model(probe[:1])
    run.snapshots.append(step)
    run.patterns.append(torch.cat(patterns).half())
