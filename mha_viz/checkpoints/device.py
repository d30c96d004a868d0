"""The device that a model runs on, by the name that a user chose. Imports no model library."""

from collections.abc import Sequence

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
        return torch.device(next(name for name, is_present in present.items() if is_present))
    kind, _, number = name.partition(":")
    if kind not in present or not f"{number}0".isdecimal():
        raise ArgumentError(f"device must be auto, cpu, cuda, cuda:0 … or mps, got {name!r}.")
    last = torch.cuda.device_count() - 1 if kind == "cuda" else 0
    if not present[kind] or int(number or 0) > last:
        choices = (
            f"auto, cpu or cuda:0 … cuda:{last}" if kind == "cuda" and last > 0 else "auto or cpu"
        )
        raise ArgumentError(f"This machine has no {name}: choose {choices}.")
    return torch.device(name)


def devices_of(names: Sequence[str] | str) -> tuple[torch.device, ...]:
    """Return several devices of this machine, on which as many processes are to work.

    `names` are those of devices of one kind, as `device_of` takes them; "all" for every CUDA card.
    The processor may be named more than once, a card may not. Raises ArgumentError: none, an
    unknown one, a card twice, or devices of two kinds.

    >>> devices_of(["cpu", "cpu"])
    (device(type='cpu'), device(type='cpu'))
    """
    if names == "all":
        names = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        if not names:
            raise ArgumentError("This machine has no CUDA card: choose auto or cpu, not all.")
    if isinstance(names, str) or not names:
        raise ArgumentError(f'devices must be "all" or a list of devices, got {names!r}.')
    devices = tuple(map(device_of, names))
    if len({device.type for device in devices}) > 1:
        raise ArgumentError(
            f"devices must be of one kind, got {', '.join(names)}: others round otherwise."
        )
    indices = [device.index or 0 for device in devices]
    for index, name in zip(indices, names, strict=True):
        if devices[0].type != "cpu" and indices.count(index) > 1:
            raise ArgumentError(f"devices must name each card once, got {name} more than once.")
    return devices
