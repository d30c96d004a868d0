"""The default dtype of one thread, in place of torch's, which is that of the whole process.

While transformers lays out a network it sets torch's default dtype to that of the network. Every
other thread that makes a tensor then gets half precision: numbers lose digits without a word, or
two precisions meet and torch raises RuntimeError.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import modeling_utils

# What makes a tensor of floats from sizes and numbers, in the default dtype where none is named.
_MAKERS = frozenset(
    {
        *(torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye),
        *(torch.arange, torch.linspace, torch.logspace, torch.normal, torch.empty_strided),
        *(torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor, torch.range),
    }
)


class _DefaultDtype(TorchFunctionMode):
    """A mode of the calling thread in which new tensors of floats have a dtype by default."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, and convert what it makes without a dtype of its own."""
        named = dict(kwargs or {})
        result = func(*args, **named)
        if func not in _MAKERS or named.get("dtype") is not None or named.get("out") is not None:
            return result
        copied = any(isinstance(value, Tensor | np.ndarray | np.generic) for value in args[:1])
        is_default = isinstance(result, Tensor) and result.dtype == torch.get_default_dtype()
        return result.to(self._dtype) if is_default and not copied else result


@contextmanager
def _of_this_thread(dtype: torch.dtype, model_class_name: str | None = None) -> Iterator[None]:
    """Set the default dtype as transformers' `local_torch_dtype`, in the calling thread alone."""
    if not dtype.is_floating_point:
        raise ValueError(f"{model_class_name or 'A network'} cannot be built of {dtype}")
    if dtype == torch.get_default_dtype():
        yield
        return
    with _DefaultDtype(dtype):
        yield


@contextmanager
def thread_dtype() -> Iterator[None]:
    """Let transformers set the default dtype of this thread alone; for one thread at a time."""
    before = modeling_utils.local_torch_dtype
    modeling_utils.local_torch_dtype = _of_this_thread
    try:
        yield
    finally:
        modeling_utils.local_torch_dtype = before
