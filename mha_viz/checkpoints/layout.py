"""The layout of a network without memory, held to what its files explain.

transformers lays a network out on the device "meta" before it reads a weight. A hook of torch
counts what is laid out meanwhile, and stops it; the result is compared with the files' headers.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.modules.module as registration
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.core_model_loading import WeightConverter

from mha_viz.checkpoints.weight_files import Shapes
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

_MOST_MODULES = 5_000  # the largest models in use have two thousand; laying one out takes 0.3 ms
_SLACK = 50_000_000  # numbers that may be missing in the files: they are drawn at random
_DRAWING = (  # functions of torch.nn.init
    *("normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_"),
    *("xavier_normal_", "xavier_uniform_", "orthogonal_"),
)
_COUNTS = ("layers", "layer", "depth", "depths", "blocks", "groups", "experts", "stages")


@contextmanager
def budget(name: str, config: PreTrainedConfig, stored: int) -> Iterator[None]:
    """Refuse to lay out more than `stored` bytes of weights explain; for the calling thread.

    The densest storage in use is a byte a weight; weights may be shared or be new. Raises
    UnsafeCheckpointError.
    """
    remaining = {"numbers": 4 * stored + _SLACK, "modules": _MOST_MODULES}
    thread = threading.get_ident()

    def spend(resource: str, amount: int, sizes: tuple[int, ...] = ()) -> None:
        if threading.get_ident() == thread:  # the hooks are every thread's
            remaining[resource] -= amount
            if remaining[resource] < 0:
                raise UnsafeCheckpointError(
                    f"config.json of {name} describes a model of too many {resource}"
                    f"{_fields(config, sizes)}, but its weights are only {stored:,} bytes: they do "
                    "not belong together."
                )

    def count(module: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        if tensor is not None:
            spend("numbers", tensor.numel(), tuple(tensor.shape))

    with ExitStack() as hooks:
        for hook in (
            registration.register_module_parameter_registration_hook(count),
            registration.register_module_buffer_registration_hook(count),
            registration.register_module_module_registration_hook(lambda *_: spend("modules", 1)),
        ):
            hooks.callback(hook.remove)
        yield


@dataclass
class LayoutChecks:
    """The checks of each network that transformers loads, before its weights are read."""

    name: str
    config: PreTrainedConfig
    shapes: Shapes  # of the weights in the files, by their headers
    stored: int  # bytes of the files
    check: Callable[[PreTrainedModel], None]  # what else is to be checked of the layout
    laid_out: bool = field(default=False, init=False)  # whether the last network got that far

    @contextmanager
    def during(self) -> Iterator[None]:
        """Check networks that are loaded inside; one thread at a time: see `building_lock`.

        Raises UnsafeCheckpointError: too much is laid out. BrokenCheckpointError: weights of
        another shape.
        """
        self.laid_out = False
        load = PreTrainedModel._load_pretrained_model
        limits = ExitStack()

        def load_checked(network: PreTrainedModel, *args: Any, **options: Any) -> Any:
            limits.close()  # loaded weights replace those of the layout: they would count twice
            self.laid_out = True
            mappings = [
                getattr(option, "weight_mapping", None) or ()
                for option in (*args, *options.values())
            ]
            # Weights that are computed of those in the files, and not only renamed.
            if not any(isinstance(step, WeightConverter) for steps in mappings for step in steps):
                _check_shapes(self, network)
            self.check(network)
            return load(network, *args, **options)

        PreTrainedModel._load_pretrained_model = staticmethod(load_checked)
        try:
            with limits:
                limits.enter_context(budget(self.name, self.config, self.stored))
                limits.enter_context(_nothing_drawn())
                yield
        finally:
            PreTrainedModel._load_pretrained_model = staticmethod(load)


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Draw no numbers for weights without memory, which takes a third of a layout's time.

    For all other weights, of whatever thread, torch's functions do what they do.
    """

    def unless_meta(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def drawn(tensor: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
            return tensor if tensor.is_meta else draw(tensor, *options, **named)

        return drawn

    originals = {name: getattr(nn.init, name) for name in _DRAWING}
    for name, draw in originals.items():
        setattr(nn.init, name, unless_meta(draw))
    try:
        yield
    finally:
        for name, draw in originals.items():
            setattr(nn.init, name, draw)


def count_parameters(network: PreTrainedModel) -> int:
    """Count the numbers of a network that is laid out; what will be shared counts once."""
    shared = getattr(network, "all_tied_weights_keys", {})
    return sum(w.numel() for name, w in network.named_parameters() if name not in shared)


def _check_shapes(checks: LayoutChecks, network: PreTrainedModel) -> None:
    """Refuse weights whose names in the file are the network's, and whose shapes are not.

    Names that transformers maps to others are not found here; it compares them as it loads them.
    """
    prefix = f"{network.base_model_prefix}."
    for key, weight in network.named_parameters():
        names = (key, f"{prefix}{key}", key.removeprefix(prefix))
        stored = next((checks.shapes[name] for name in names if name in checks.shapes), None)
        expected = tuple(weight.shape)
        if stored is not None and stored != expected:
            fields = _fields(checks.config, tuple(set(expected) - set(stored)))
            raise wrong_shape(checks.name, key, stored, expected, fields)


def wrong_shape(
    name: str, key: str, stored: Any, expected: Any, fields: str = ""
) -> BrokenCheckpointError:
    """Return the error for a weight that has one shape in the file, and another by the config."""
    return BrokenCheckpointError(
        f"The weights of {name} do not fit its config: {key} has shape {tuple(stored)} in the file "
        f"and {tuple(expected)} by the config{fields}."
    )


def _fields(config: PreTrainedConfig, sizes: tuple[int, ...]) -> str:
    """Name the config's field that explains one of these sizes; the largest count without them."""
    fields = {
        key: value
        for part in (config.get_text_config(), config)
        for key, value in part.to_dict().items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    if sizes:
        likely = [
            key for size in sorted(sizes, reverse=True) for key in fields if fields[key] == size
        ]
    else:
        counts = [key for key in fields if key.rpartition("_")[2] in _COUNTS]
        likely = sorted(counts, key=lambda key: -fields[key])
    return f" ({likely[0]} = {fields[likely[0]]:,})" if likely else ""
