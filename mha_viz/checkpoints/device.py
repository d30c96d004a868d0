"""The device that a model runs on, by the name that a user chose. Imports no model library."""

import torch

from mha_viz.errors import ArgumentError


def device_of(name: str) -> torch.device:
    """Return the device of that name; "auto" takes cuda, then mps, then cpu."""
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(name for name, there in present.items() if there))
    kind, _, number = name.partition(":")
    if kind not in present or not f"{number}0".isdecimal():
        raise ArgumentError(f"device must be auto, cpu, cuda, cuda:0 … or mps, got {name!r}.")
    last = torch.cuda.device_count() - 1 if kind == "cuda" else 0
    if not present[kind] or int(number or 0) > last:
        raise ArgumentError(f"This machine has no {name}: choose auto or cpu.")
    return torch.device(name)
