"""The way of a batch's numbers from their device to the processor, while the next batch runs."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import torch
from torch import Tensor

Found = dict[Hashable, Tensor]  # tensors by name
StartCopy = Callable[[Sequence[Tensor]], Callable[[], Sequence[Tensor]]]


def start_copy(packed: Sequence[Tensor]) -> Callable[[], Sequence[Tensor]]:
    """Start to copy tensors of one device to the processor; return what waits for the copies.

    On CUDA they go into pinned memory on a stream of their own, behind what runs already.
    """
    device = packed[0].device
    if device.type != "cuda":
        return lambda: [one.cpu() for one in packed]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        here = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in packed]
        for copy, one in zip(here, packed, strict=True):
            copy.copy_(one, non_blocking=True)
            one.record_stream(stream)  # its memory is not used again before it is copied
        done = stream.record_event()

    def wait() -> Sequence[Tensor]:
        done.synchronize()
        return here

    return wait


class DeviceTransfer:
    """A way from a device to the processor that one batch at a time is on.

    What is sent from a processor is received at once, as it is. From another device tensors of a
    dtype are packed into one and copied together. They are received when the next batch is sent, or
    at `finish`: until then the device runs on, and Python starts the next batch. `start` starts a
    copy, as `start_copy` does.
    """

    def __init__(self, start: StartCopy = start_copy) -> None:
        self._start = start
        self._on_the_way: Callable[[], None] | None = None

    def send(self, tensors: Mapping[Hashable, Tensor], receive: Callable[[Found], None]) -> None:
        """Send the numbers of a batch; `receive` is called with them under the same names."""
        if all(one.device.type == "cpu" for one in tensors.values()):
            receive(dict(tensors))
            return
        by_dtype: dict[torch.dtype, list[Hashable]] = {}
        for name, one in tensors.items():
            by_dtype.setdefault(one.dtype, []).append(name)
        packed = [torch.cat([tensors[n].flatten() for n in names]) for names in by_dtype.values()]
        shapes = {name: one.shape for name, one in tensors.items()}
        wait = self._start(packed)

        def arrive() -> None:
            found: Found = {}
            for names, whole in zip(by_dtype.values(), wait(), strict=True):
                parts = whole.split([shapes[name].numel() for name in names])
                found |= {n: part.view(shapes[n]) for n, part in zip(names, parts, strict=True)}
            receive(found)

        self.finish()
        self._on_the_way = arrive

    def finish(self) -> None:
        """Wait for the batch that is on its way, if there is one."""
        arrive, self._on_the_way = self._on_the_way, None
        if arrive is not None:
            arrive()
