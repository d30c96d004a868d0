"""How much a model's loss depends on each head: by switching it off, and by the gradient.

Knows losses under gates and the lists of layers that networks are made of; must not know screens.

Layers before the first head that a setting touches give what they gave without gates. They are
recorded once, and a copy of the module tree has stand-ins for them that give it back (parameters
are shared; the model itself is never written to, so that threads may share it). Where a family
does not allow that (ALBERT runs one layer again and again), every layer is run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy import stats
from torch import Tensor, nn

from mha_viz.capture.attention_function import Probe
from mha_viz.capture.loss import (
    MASKED_SHARE,
    Gates,
    OnProgress,
    Prepared,
    Progress,
    Questions,
    Told,
    questions,
    setting_losses,
)
from mha_viz.capture.model import AttentionModel
from mha_viz.errors import ArgumentError, ShapeError

Method = Literal["ablation", "gradient"]
CONFIDENCE = 0.95
ONE_TEXT = "One text: no interval. Give several to see how far the numbers depend on the text."
GRADIENT_TOKENS = 512  # in one pass, whose every layer's activations are kept for the way back
MAX_RECORDED_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """How much the loss depends on each head, on one text or several.

    Args:
        method: "ablation" or "gradient", which say different things (`head_importance`).
        mean: (layer, head), mean over the texts, nats per token.
        low, high: (layer, head), its 95 % t-interval over the texts; NaN for one text.
        values: (text, layer, head), of each text.
        loss: (text,), the loss with all heads on, nats per token.
        n_tokens: how many tokens were predicted for it, over all texts.
        notes: what was cut off, and that one text has no interval.
    """

    method: Method
    mean: Float[Tensor, "layer head"]
    low: Float[Tensor, "layer head"]
    high: Float[Tensor, "layer head"]
    values: Float[Tensor, "text layer head"]
    loss: Float[Tensor, " text"]
    n_tokens: int
    notes: tuple[str, ...] = ()

    @property
    def n_texts(self) -> int:
        return len(self.values)

    def table(self) -> pd.DataFrame:
        """A row per head: layer, head, importance, low, high."""
        n_layers, n_heads = self.mean.shape
        return pd.DataFrame({
            "layer": torch.arange(n_layers).repeat_interleave(n_heads).numpy(),
            "head": torch.arange(n_heads).repeat(n_layers).numpy(),
            "importance": self.mean.flatten().numpy(),
            "low": self.low.flatten().numpy(),
            "high": self.high.flatten().numpy(),
        })  # fmt: skip


class Agreement(NamedTuple):
    """Spearman's rank correlation in [-1, 1], and of how many heads; NaN where undefined."""

    rho: float
    n_heads: int


def head_importance(
    model: AttentionModel,
    texts: str | Sequence[str],
    method: Method | str = "ablation",
    on_progress: OnProgress | None = None,
    *,
    masked_share: float = MASKED_SHARE,
) -> HeadImportance:
    """What each head, alone, does for the loss of one text or several (see `losses`).

    "ablation": loss with the head off (z times 0, its share of b_O stays) - loss with all on. Below
    0 where the model predicts these texts better without it. "gradient": |dL / d gate| of each
    text at gate 1, then the mean over texts: how steeply the loss answers to turning the head down
    a little, whichever way; 0 or more.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        texts: each counts the same, however long it is.
        method: "ablation" takes about half a forward pass for every head and text, in batches;
            "gradient" one forward and one backward pass for every text.
        on_progress: called with how much is done, and of how much; an exception it raises stops
            the work.
        masked_share: see `losses`.

    Returns:
        HeadImportance, (layer, head), nats per token, float64; the same at every call.

    Raises:
        ArgumentError: an unknown method; and what `losses` raises.

    Source: Michel et al. 2019, eq. 2 (gradient) and section 3 (one head off). They divide each
    layer's gradients by their norm; here they stay as they are, so that layers compare.

    >>> import mha_viz as mv
    >>> model, texts = mv.load("tiny-gpt2"), ["The cat sat on the mat.", "A dog ran."]
    >>> found = head_importance(model, texts)
    >>> found.mean.shape, found.n_texts, found.n_tokens > 8
    (torch.Size([4, 8]), 2, True)
    >>> agreement(found, head_importance(model, texts, "gradient")).n_heads
    32
    """
    if method not in get_args(Method):
        raise ArgumentError(f'method must be "ablation" or "gradient", got {method!r}.')
    asked = questions(model, texts, masked_share)
    off = method == "ablation"
    values, loss = (_ablations if off else _gradients)(model, asked, on_progress)
    mean, low, high = t_interval(values)
    return HeadImportance(
        *("ablation" if off else "gradient", mean, low, high, values, loss),
        n_tokens=int(asked.n_answers.sum()),
        notes=asked.notes + (ONE_TEXT,) * (len(values) == 1),
    )


def agreement(
    a: HeadImportance | Float[Tensor, "..."], b: HeadImportance | Float[Tensor, "..."]
) -> Agreement:
    """Whether two measures put the heads in the same order: Spearman's rank correlation.

    Args:
        a, b: importances, or (layer, head) of any measure; heads with a NaN are left out.

    Raises:
        ShapeError: of different models.

    >>> agreement(torch.tensor([[1.0, 2, 3]]), torch.tensor([[5.0, 7, 90]]))
    Agreement(rho=1.0, n_heads=3)
    """
    x, y = (one.mean if isinstance(one, HeadImportance) else one for one in (a, b))
    if x.shape != y.shape:
        raise ShapeError(
            f"Both must be of the same heads, got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    known = torch.isfinite(x) & torch.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 2 or bool((x == x[0]).all() | (y == y[0]).all()):
        return Agreement(float("nan"), len(x))
    return Agreement(float(stats.spearmanr(x.numpy(), y.numpy()).statistic), len(x))


def t_interval(values: Float[Tensor, "text *rest"]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean over texts, and the ends of its 95 % t-interval; they are NaN for one text."""
    n, mean = len(values), values.mean(0)
    if n < 2:
        return mean, torch.full_like(mean, torch.nan), torch.full_like(mean, torch.nan)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * values.std(0) / n**0.5
    return mean, mean - reach, mean + reach


def _ablations(
    model: AttentionModel, asked: Questions, on_progress: OnProgress | None
) -> tuple[Float[Tensor, "text layer head"], Float[Tensor, " text"]]:
    size = (model.n_layers, model.n_heads)
    off = 1 - torch.eye(size[0] * size[1]).reshape(-1, *size)
    gates = torch.cat([torch.ones(1, *size), off])
    found = setting_losses(model, asked, gates, on_progress, Shortened)
    return (found[1:] - found[0]).T.reshape(-1, *size), found[0]


def _gradients(
    model: AttentionModel, asked: Questions, on_progress: OnProgress | None
) -> tuple[Float[Tensor, "text layer head"], Float[Tensor, " text"]]:
    progress = Progress(on_progress, len(asked.rows))
    progress.again()
    with torch.inference_mode(False), torch.enable_grad():
        values = torch.zeros(asked.n_texts, model.n_layers, model.n_heads, dtype=torch.float64)
        loss = torch.zeros(asked.n_texts, dtype=torch.float64)
        for part in asked.parts(GRADIENT_TOKENS):
            prepared = Shortened(model, part)
            # Each row has gates of its own, so that one way back serves all rows.
            gates = torch.ones(
                *(len(part.rows), model.n_layers, model.n_heads),
                dtype=torch.promote_types(model.dtype, torch.float32),
                device=model.device,
                requires_grad=True,
            )
            found = part.of_texts(-prepared.under(1, gates, told=progress.again))[0]
            # Only with respect to the gates: nothing is added to the parameters' own gradients.
            (slope,) = torch.autograd.grad(found.sum(), gates)
            values.index_add_(0, torch.tensor(part.text), slope.double().cpu())
            loss += found.detach().double().cpu()
            progress.add(len(part.rows))
        n_answers = asked.n_answers
        return (values / n_answers[:, None, None]).abs(), loss / n_answers


# -- passes that leave out what is known already -------------------------------------------------


class Shortened(Prepared):
    """As `Prepared`, but logits are computed where they are asked for alone, and layers only from
    the first one that a setting touches."""

    def __init__(self, model: AttentionModel, asked: Questions) -> None:
        self.last = _only_path(model.network, model.network.get_output_embeddings())
        super().__init__(model, asked)
        self.stand_ins: dict[str, nn.Module] = {}
        self.recorded: list[Any] = []
        if self.last is not None:
            linear = model.network.get_submodule(self.last)
            self.stand_ins[self.last] = _Chosen(linear, len(asked.rows), self.row, self.place)

    def bytes_each(self, n: int) -> int:
        whole = super().bytes_each(n)
        return whole if self.last is None else 4 * len(self.answer) * self.model.d_vocab

    def first_layers(self, gates: Gates, told: Told) -> Int[Tensor, " setting"]:
        touched = (gates != 1).any(-1)
        nothing = touched.shape[1] - 1  # the last layer alone then
        first = torch.where(touched.any(-1), touched.int().argmax(-1), nothing)
        return first if bool(first.any()) and self.record(told) else torch.zeros_like(first)

    def log_p(
        self, gates: Gates, start: int = 0, told: Told | None = None
    ) -> Float[Tensor, "setting target"]:
        batch = gates.to(self.model.device).repeat_interleave(len(self.asked.rows), 0)
        return self.under(len(gates), batch[:, start:], start, told)

    def under(
        self,
        n_settings: int,
        gates: Float[Tensor, "batch layer head"] | None,
        start: int = 0,
        told: Told | None = None,
    ) -> Float[Tensor, "setting target"]:
        """ln p of every answer, with gates for each row of the batch and each layer run."""
        stand_ins = dict(self.stand_ins)
        if start:
            path, layers = self.layers
            known = [
                _Replay(layer, output, n_settings)
                for layer, output in zip(layers[:start], self.recorded, strict=False)
            ]
            stand_ins[path] = nn.ModuleList([*known, *layers[start:]])
        return self._answers(n_settings, stand_ins, Probe((), told, gates=gates))

    def record(self, told: Callable[[int], None]) -> bool:
        """Run once without gates and keep what each layer gives; whether it can be given back."""
        found = _layer_list(self.model)
        n = max(len(row.input_ids) for row in self.asked.rows)
        size = self.model.n_layers * len(self.asked.rows) * n * self.model.d_model
        if found is None or size * self.model.dtype.itemsize > MAX_RECORDED_BYTES:
            return False
        path, layers = self.layers = found
        kept: list[list[Any]] = [[] for _ in layers]
        listening = nn.ModuleList(_Recording(*both) for both in zip(layers, kept, strict=True))
        plain = self._answers(1, self.stand_ins | {path: listening}, Probe((), told))
        if any(len(outputs) != 1 for outputs in kept):
            return False
        self.recorded = [outputs[0] for outputs in kept]
        if not all(map(_repeatable, self.recorded)):
            return False
        # Whether anything went from layer to layer by another way shows in the last one.
        again = self.under(2, None, len(layers) - 1, told)
        tolerance = 1e-3 if self.model.dtype in (torch.float32, torch.float64) else 0.1
        return bool(torch.allclose(again, plain.expand_as(again), rtol=tolerance, atol=tolerance))

    def _answers(
        self, n_settings: int, stand_ins: Mapping[str, nn.Module], probe: Probe
    ) -> Float[Tensor, "setting target"]:
        logits = self.logits(with_stand_ins(self.model.network, stand_ins), n_settings, probe)
        if self.last is None:
            logits = logits.unflatten(0, (n_settings, -1))[:, self.row, self.place]
        return self.right(logits)


def _layer_list(model: AttentionModel) -> tuple[str, nn.ModuleList] | None:
    """The list with one layer for each call of our function, in that order, and its path."""
    attentions = [layer.module for layer in model.layers()]
    for module in model.network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(attentions):
            inside = zip(attentions, module, strict=True)
            if all(attention in set(layer.modules()) for attention, layer in inside):
                path = _only_path(model.network, module)
                return None if path is None else (path, module)
    return None


def _only_path(network: nn.Module, wanted: nn.Module | None) -> str | None:
    """Where a matrix or a list of layers is, if that is one place."""
    if type(wanted) not in (nn.Linear, nn.ModuleList):
        return None
    everywhere = network.named_modules(remove_duplicate=False)
    paths = [path for path, module in everywhere if module is wanted]
    return paths[0] if len(paths) == 1 else None


def _repeatable(output: Any) -> bool:
    if isinstance(output, tuple):
        return all(map(_repeatable, output))
    return output is None or isinstance(output, Tensor)


def _repeated(output: Any, times: int) -> Any:
    """One layer's output for so many settings of the same rows."""
    if isinstance(output, tuple):
        return tuple(_repeated(part, times) for part in output)
    return None if output is None else output.expand(times, *output.shape).flatten(0, 1)


# -- a network with other modules in it ----------------------------------------------------------


class StandIn(nn.Module):
    """A module in another's place; what it is asked about itself, that one answers."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.__dict__["original"] = original  # not a child: its parameters are the model's

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


class _Chosen(StandIn):
    """The last matrix of a prediction head, for the places that are asked about and no others."""

    def __init__(self, original: nn.Module, n_rows: int, row: Tensor, place: Tensor) -> None:
        super().__init__(original)
        self.__dict__.update(n_rows=n_rows, row=row, place=place)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.original(hidden.unflatten(0, (-1, self.n_rows))[:, self.row, self.place])


class _Recording(StandIn):
    def __init__(self, original: nn.Module, kept: list[Any]) -> None:
        super().__init__(original)
        self.__dict__["kept"] = kept

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.original(*args, **kwargs)
        self.kept.append(output)
        return output


class _Replay(StandIn):
    def __init__(self, original: nn.Module, output: Any, times: int) -> None:
        super().__init__(original)
        self.__dict__.update(output=output, times=times)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _repeated(self.output, self.times)


def with_stand_ins(network: nn.Module, stand_ins: Mapping[str, nn.Module]) -> nn.Module:
    """A network that shares all but the modules named; the given one is not touched.

    Args:
        network: any.
        stand_ins: path of a module -> what to call instead of it.
    """
    copies = {"": _twin(network)}
    for path, stand_in in stand_ins.items():
        *above, name = path.split(".")
        parent = copies[""]
        for depth, step in enumerate(above, 1):
            here = ".".join(above[:depth])
            if here not in copies:
                child = parent._modules[step]
                assert child is not None  # on the way to a module that is there
                parent._modules[step] = copies[here] = _twin(child)
            parent = copies[here]
        parent._modules[name] = stand_in
    return copies[""]


def _twin(module: nn.Module) -> nn.Module:
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
