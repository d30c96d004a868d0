"""The loss of texts with some heads switched off, by runs that reuse the layers no gate touches.

A setting is a factor for every head. One forward pass takes many of them, one after the other in
the batch: all rows of text under the first, then all under the second.

Layers before the first head that a setting touches give what they gave without gates. They are
recorded once, and a copy of the module tree has stand-ins for them that give it back (parameters
are shared; the model itself is never written to, so that threads may share it). Where a family
does not allow that (ALBERT runs one layer again and again), every layer is run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mha_viz.engine.layer_activations import CallRecorder, ModuleProxy, replace_modules
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.engine.run import OnLayer
from mha_viz.prediction.logits import logits, objective
from mha_viz.prediction.targets import PredictionTargets

MAX_TOKENS = 2048  # in one forward pass; more makes it no faster, and takes more memory
MAX_LOGIT_BYTES = 2**28
MAX_RECORDED_BYTES = 2**29
Gates = Float[Tensor, "setting layer head"]
OnProgress = Callable[[int, int], None]


class Progress:
    """The progress of a measurement, reported often, so that a listener may stop it.

    `on_progress` is called with how much is done, and of how much; None: not called.
    """

    def __init__(self, on_progress: OnProgress | None, total: int) -> None:
        self.on_progress, self.total, self.done = on_progress, total, 0
        self.report()

    def add(self, more: int) -> None:
        """Report that so much more is done."""
        self.done += more
        self.report()

    def report(self, _layer: int = 0) -> None:
        """Report the same once more; takes a layer's number, to serve as `on_layer`."""
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


@torch.inference_mode()
def losses(
    model: AttentionModel,
    targets: PredictionTargets,
    off: Sequence[Sequence[int]],
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "setting text"]:
    """Compute the loss of texts with some of a model's heads switched off.

    The mean of -ln p over the target tokens of a text (`prediction_targets`): of a
    causal model each given those before it, of a masked one each with its share hidden. Of a
    classifier -ln p of what is right, and of a regression the number that it predicts.

    Args:
        model: the model that the targets were made for.
        targets: the tokens to predict.
        off: of every setting the heads that are off, numbered layer * n_heads + head; [] is the
            model as it is. Equal settings are run once.
        on_progress: called with how much is done, and of how much (rows of text under a setting),
            at least once a layer; an exception it raises stops the work.

    Returns:
        (setting, text), nats per token, 0 or more, float64; the same at every call.

    >>> import mha_viz as mv
    >>> from mha_viz.prediction.targets import prediction_targets
    >>> model = mv.load("tiny-gpt2")
    >>> all_on, all_off = losses(model, prediction_targets(model, "The cat sat."), [[], range(32)])
    >>> bool(all_on < all_off)
    True
    """
    gates = torch.ones(len(off), model.n_layers * model.n_heads)
    for setting, heads in zip(gates, off, strict=True):
        setting[list(heads)] = 0.0
    gates, setting_index = torch.unique(gates, dim=0, return_inverse=True)
    gates = gates.unflatten(1, (model.n_layers, model.n_heads))
    total = torch.zeros(len(gates), targets.n_texts, dtype=torch.float64)
    progress = Progress(on_progress, len(gates) * len(targets.rows))
    for part in in_passes(targets, len(gates)):
        prepared = ReplayingPass(model, part)
        for layer, chosen in prepared.batches(gates, progress.report):
            log_p = prepared.log_p(gates[chosen], layer, progress.report)
            total[chosen] -= part.of_texts(log_p.cpu().double())
            progress.add(len(chosen) * len(part.rows))
    return (total / targets.n_answers)[setting_index]


def in_passes(targets: PredictionTargets, n_settings: int) -> Iterator[PredictionTargets]:
    """Split targets into parts, each for one `ReplayingPass` that runs so many settings of it."""
    return targets.parts(MAX_TOKENS // min(n_settings, 8))


class ReplayingPass:
    """Targets that go into one forward pass, and the network that predicts them.

    Logits are computed at the targets alone, and layers from the first one that a setting touches;
    what earlier layers gave is replayed.

    Attributes:
        row, position, answer: (target,), of every answer where it is predicted and the right token.
        n_settings: how many settings a pass should take.
        plain: the logits of the run that `record` made; None before it.
    """

    def __init__(self, model: AttentionModel, targets: PredictionTargets) -> None:
        self.model, self.targets = model, targets
        self.row, self.position, self.answer = targets.index().to(model.device)
        self.replacements: dict[str, nn.Module] = {}
        self.recorded: list[Any] = []
        self.plain: Tensor | None = None
        self.last = _only_path(model.network, model.network.get_output_embeddings())
        n = max(len(row.input_ids) for row in targets.rows)
        n_logits = len(targets.rows) * n
        if self.last is not None:
            linear = model.network.get_submodule(self.last)
            chosen = _Chosen(linear, n_rows=len(targets.rows), row=self.row, position=self.position)
            self.replacements[self.last] = chosen
            n_logits = len(self.answer)
        self.kind = objective(model.network)
        n_outcomes = model.d_vocab
        if self.kind not in ("causal", "masked"):
            n_outcomes = max(2, model.network.config.num_labels)
        n_bytes = 4 * n_logits * n_outcomes  # of the logits under one setting, or more
        most = MAX_TOKENS // (len(targets.rows) * n), MAX_LOGIT_BYTES // n_bytes
        self.n_settings = max(1, min(most))

    def batches(
        self, gates: Gates, on_layer: OnLayer
    ) -> Iterator[tuple[int, Int[Tensor, " setting"]]]:
        """Yield for each pass its first layer and settings; record what earlier layers give."""
        touched = (gates != 1).any(-1)
        nothing = touched.shape[1] - 1  # the last layer alone then
        first = torch.where(touched.any(-1), touched.int().argmax(-1), nothing)
        if not (bool(first.any()) and self.record(on_layer)):
            first = torch.zeros_like(first)
        for layer in first.unique().tolist():
            for chosen in torch.where(first == layer)[0].split(self.n_settings):
                yield layer, chosen

    def log_p(
        self, gates: Gates, start: int = 0, on_layer: OnLayer | None = None
    ) -> Float[Tensor, "setting target"]:
        """Return ln p of every answer under each setting, with layers from `start` on run anew."""
        batch = gates.to(self.model.device).repeat_interleave(len(self.targets.rows), 0)
        return self.log_p_by_row(len(gates), batch[:, start:], start, on_layer)

    def log_p_by_row(
        self,
        n_settings: int,
        gates: Float[Tensor, "batch layer head"] | None,
        start: int = 0,
        on_layer: OnLayer | None = None,
    ) -> Float[Tensor, "setting target"]:
        """Return ln p of every answer, with gates for each row; gradients flow to them."""
        probe = Probe((), on_layer, edits=HeadEdits(gates))
        return self.right(self.logits(n_settings, probe, start))

    def logits(
        self,
        n_settings: int,
        probe: Probe,
        start: int = 0,
        inside: Mapping[str, nn.Module] | None = None,
    ) -> Float[Tensor, "setting target d_vocab"]:
        """Return the logits at every target, under the probe's edits; gradients flow to it.

        The rows are repeated `n_settings` times in the batch. Layers before `start` are replayed as
        `record` kept them; the probe counts the others from 0, and `inside` replaces modules of
        them.
        """
        replacements = dict(self.replacements)
        if start:
            path, layers = self.layers
            first_layers = [
                _Replay(layer, output=output, times=n_settings, n_rows=len(self.targets.rows))
                for layer, output in zip(layers[:start], self.recorded, strict=False)
            ]
            replacements[path] = nn.ModuleList([*first_layers, *layers[start:]])
        return self._answers(n_settings, replacements | dict(inside or {}), probe)

    def record(
        self,
        on_layer: OnLayer | None = None,
        probe: Probe | None = None,
        inside: Mapping[str, nn.Module] | None = None,
    ) -> bool:
        """Run once without gates and keep what each layer gives; whether it can be given back.

        `probe` stands in place of one that keeps nothing, and `inside` replaces modules of the
        layers in that run; neither changes a number.
        """
        layer_list = _layer_list(self.model)
        n = max(len(row.input_ids) for row in self.targets.rows)
        size = self.model.n_layers * len(self.targets.rows) * n * self.model.d_model
        if layer_list is None or size * self.model.dtype.itemsize > MAX_RECORDED_BYTES:
            return False
        path, layers = self.layers = layer_list
        calls_of: list[list[tuple[Any, Any]]] = [[] for _ in layers]
        recorded_layers: Any = replace_modules(self.model.network, inside or {}).get_submodule(path)
        pairs = zip(recorded_layers, calls_of, strict=True)
        recorders = nn.ModuleList(CallRecorder(layer, calls=calls) for layer, calls in pairs)
        probe = Probe((), on_layer) if probe is None else probe
        self.plain = self._answers(1, self.replacements | {path: recorders}, probe)
        if any(len(calls) != 1 for calls in calls_of):
            return False
        self.recorded = [output for ((_, output),) in calls_of]
        if not all(map(_repeatable, self.recorded)):
            return False
        # Whether anything went from layer to layer by another way shows in the last one.
        plain = self.right(self.plain.detach())
        again = self.log_p_by_row(2, None, len(layers) - 1, on_layer)
        tolerance = 1e-3 if self.model.dtype in (torch.float32, torch.float64) else 0.1
        return bool(torch.allclose(again, plain.expand_as(again), rtol=tolerance, atol=tolerance))

    def right(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, "setting target"]:
        """Return ln p of the right tokens; of a regression minus its number."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.kind == "regression":
            return -logits[..., 0]
        right = logits.gather(-1, self.answer.expand(len(logits), -1)[..., None])[..., 0]
        return right - logits.logsumexp(-1)

    def _answers(
        self, n_settings: int, replacements: Mapping[str, nn.Module], probe: Probe
    ) -> Float[Tensor, "setting target d_vocab"]:
        network = replace_modules(self.model.network, replacements)
        pad = self.model.tokenizer.pad_token_id or 0
        text_logits = logits(network, self.targets.rows * n_settings, probe, pad=pad)
        if self.last is None:
            text_logits = text_logits.unflatten(0, (n_settings, -1))[:, self.row, self.position]
        return text_logits


def _layer_list(model: AttentionModel) -> tuple[str, nn.ModuleList] | None:
    """Return the list with one layer for each call of our function, and its path."""
    attentions = [layer.module for layer in model.layers()]
    for module in model.network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(attentions):
            inside = zip(attentions, module, strict=True)
            if all(attention in set(layer.modules()) for attention, layer in inside):
                path = _only_path(model.network, module)
                return None if path is None else (path, module)
    return None


def _only_path(network: nn.Module, target: nn.Module | None) -> str | None:
    """Return the path of a matrix or a list of layers, if there is exactly one."""
    if type(target) not in (nn.Linear, nn.ModuleList):
        return None
    everywhere = network.named_modules(remove_duplicate=False)
    paths = [path for path, module in everywhere if module is target]
    return paths[0] if len(paths) == 1 else None


def _repeatable(output: Any) -> bool:
    if isinstance(output, tuple):
        return all(map(_repeatable, output))
    return output is None or isinstance(output, Tensor)


def repeated(output: Any, times: int, n_rows: int | None = None) -> Any:
    """Repeat one layer's output for so many settings of the same rows, without its gradient.

    A tensor that is not of `n_rows` is of all rows alike (T5's bias by distance), and stays.
    """
    if isinstance(output, tuple):
        return tuple(repeated(part, times, n_rows) for part in output)
    if output is None or n_rows not in (None, len(output)):
        return None if output is None else output.detach()
    return output.detach().expand(times, *output.shape).flatten(0, 1)


# -- modules in the place of others ---------------------------------------------------------------


class _Chosen(ModuleProxy):
    """The last matrix of a prediction head, applied at the target places alone."""

    def forward(self, hidden: Tensor) -> Tensor:
        indices = (index.to(hidden.device) for index in (self.row, self.position))
        return self.original(hidden.unflatten(0, (-1, self.n_rows))[:, *indices])


class _Replay(ModuleProxy):
    """A layer that gives the same `output` again, so many `times`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return repeated(self.output, self.times, self.n_rows)
