"""Copies between a processor's memory and a graphics card that do not wait for what it is doing."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on a device; to CUDA from pinned memory, behind what the card has begun."""
    if torch.device(device).type == "cuda" and torch.cuda.is_available() and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def to_processor(tensor: Tensor) -> Tensor:
    """Return the tensor in the processor's memory; from CUDA in pinned, which is much faster."""
    if not tensor.is_cuda:
        return tensor.cpu()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
