"""How large a network a config may describe, found out without laying it out in memory."""

from __future__ import annotations

import threading

import torch
import torch.nn.modules.module as registration
from torch import nn
from transformers import AutoModel, PreTrainedConfig

from mha_viz.errors import BrokenCheckpointError, LoadError, UnsafeCheckpointError, translating


def check_size(name: str, config: PreTrainedConfig, stored: int) -> None:
    """Refuse a config that would take far more memory than its weights, `stored` bytes, explain.

    The network is laid out without storage first; numbers in a config cost nothing until then.

    Args:
        name: what messages call the checkpoint.
        config: read from its config.json.
        stored: bytes of its weight files.

    Raises:
        UnsafeCheckpointError: it would take far more.
        BrokenCheckpointError: no network can be built of it.
    """

    def unbuildable(error: BaseException) -> LoadError:
        if isinstance(error, _TooMuchError):
            return UnsafeCheckpointError(
                f"config.json of {name} describes a model of {error}, but its weights are only "
                f"{stored:,} bytes: they do not belong together."
            )
        return BrokenCheckpointError(
            f"config.json of {name} describes no model that can be built: {first_line(str(error))}"
        )

    # The densest storage in use is a byte a weight; weights may be shared or be new.
    budget = _Budget(n_numbers=4 * stored + 50_000_000)
    with translating(unbuildable), torch.device("meta"), budget:
        AutoModel.from_config(config, trust_remote_code=False)


class _TooMuchError(Exception):
    pass


class _Budget:
    """Stops this thread's building of a network at the first number or module too many."""

    MODULES = 5_000  # the largest models in use have two thousand; laying one out takes 0.3 ms

    def __init__(self, n_numbers: int) -> None:
        self.left = {"numbers": n_numbers, "modules": self.MODULES}
        self.thread = threading.get_ident()

    def __enter__(self) -> None:
        self.hooks = [
            registration.register_module_parameter_registration_hook(self._numbers),
            registration.register_module_buffer_registration_hook(self._numbers),
            registration.register_module_module_registration_hook(self._module),
        ]

    def __exit__(self, *exc: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def _numbers(self, module: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._spend("numbers", 0 if tensor is None else tensor.numel())

    def _module(self, module: nn.Module, name: str, child: nn.Module | None) -> None:
        self._spend("modules", 1)

    def _spend(self, what: str, amount: int) -> None:
        if threading.get_ident() != self.thread:  # the hooks are every thread's
            return
        self.left[what] -= amount
        if self.left[what] < 0:
            raise _TooMuchError(f"too many {what}")


def first_line(message: str) -> str:
    """The first line of another library's message; the next one, too, if it announces that."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        lines[0] += " " + " ".join(lines[1:2])
    return (lines[0] if lines else "no reason given")[:300]
