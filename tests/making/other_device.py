"""Devices that are not there: tensors that name one, refuse others beside them, and compute here.

A tensor on such a device keeps its numbers in one of the processor's. As on a graphics card, it
cannot become an array, and an operation on tensors of two devices is an error, but for a copy
from one to the other, a number without axes, or places given by the processor. What a library puts
on the wrong device, or forgets to move, fails here as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

# Of a kind that every build of torch lets be named; and two that only Python takes for these.
FIRST, SECOND = torch.device("lazy:0"), torch.device("lazy:1")
MPS, CUDA = torch.device("mps:0"), torch.device("cuda:0")
_STAND_INS = {MPS: torch.device("lazy:2"), CUDA: torch.device("lazy:3")}
# What Apple's lacks, as torch 2.13 lists it for its own tests: float64 (`opinfo.core`), and of the
# operations in UNIMPLEMENTED_XFAILLIST (`common_mps`) those that could be of use here.
MPS_LACKS = (
    *("aten::_linalg_eigh", "aten::linalg_eigh", "aten::linalg_eigvalsh", "aten::linalg_svdvals"),
    *("aten::linalg_eig", "aten::geqrf", "aten::linalg_lstsq", "aten::matrix_exp", "aten::put_"),
)
_CPU = torch.device("cpu")
_COPIES = ("aten::copy_", "aten::_to_copy")
_PLACES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class ElsewhereTensor(Tensor):
    """A tensor on a device that is not there; `inner` has its numbers."""

    inner: Tensor
    on: torch.device
    device = property(lambda self: self.on)  # type: ignore[assignment]

    @staticmethod
    def of(inner: Tensor, device: torch.device) -> ElsewhereTensor:
        with torch.inference_mode(False):  # a view of a weight keeps count of its versions
            made: Any = Tensor._make_wrapper_subclass(
                ElsewhereTensor,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=_STAND_INS.get(device, device),
            )
        made.inner, made.on = inner.detach(), device
        return made

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def tolist(self) -> Any:
        return self.inner.tolist()

    def __getitem__(self, places: Any) -> Any:
        return super().__getitem__(_as_tensors(places))

    def __setitem__(self, places: Any, value: Any) -> None:
        super().__setitem__(_as_tensors(places), value)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{self.inner!r} on {self.device}"


class _MadeHere(TorchFunctionMode):
    """Mode that makes tensors of numbers here first, as torch does before it moves them.

    A device that this build of torch would look for goes by its stand-in.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        args, kwargs = tree_map(
            lambda one: _STAND_INS.get(one, one) if isinstance(one, torch.device) else one,
            (args, dict(kwargs or {})),
        )
        device = kwargs.pop("device", None) if func is torch.tensor else None
        found = func(*args, **kwargs)
        return found if device is None else found.to(device)


class _Elsewhere(TorchDispatchMode):
    """Mode that makes tensors on these devices, and moves them there."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


_fetched: list[int] = []


@contextmanager
def other_devices() -> Iterator[list[int]]:
    """Let tensors be made on devices that are not there; list how many numbers each fetch takes."""
    _fetched.clear()
    with _Elsewhere(), _MadeHere():
        yield _fetched


def put(network: nn.Module, place: Callable[[str], torch.device]) -> None:
    """Put each parameter and buffer on the device of its module's name, and let inputs follow.

    As accelerate does for a `device_map`, each module takes its inputs to where its weights are.
    """
    # each weight with what stands for it: modules may share one, and ids are reused
    moved: dict[int, tuple[Tensor, nn.Parameter]] = {}
    for name, module in network.named_modules():
        device = place(name)
        for key, weight in module._parameters.items():
            if weight is None:
                continue
            if id(weight) not in moved:
                there = ElsewhereTensor.of(weight.detach(), device)
                moved[id(weight)] = weight, nn.Parameter(there, weight.requires_grad)
            module._parameters[key] = moved[id(weight)][1]
        for key, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[key] = ElsewhereTensor.of(buffer, device)
        own = [weight.device for weight in module._parameters.values() if weight is not None]
        module.register_forward_pre_hook(_follow(own[0] if own else device), with_kwargs=True)


def _follow(device: torch.device) -> Callable[..., Any]:
    def move(one: Any) -> Any:
        return one.to(device) if isinstance(one, Tensor) else one

    def before(_: nn.Module, args: Any, kwargs: Any) -> Any:
        return tree_map(move, (args, kwargs))

    return before


def _computed(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Compute an operation here, and give what comes of it its device."""
    flat, spec = tree_flatten((args, dict(kwargs)))
    name = func._schema.name
    device = _device(name, args, flat)
    if device == MPS and name in MPS_LACKS:
        # torch's own error where a device lacks an operation: callers catch it.
        raise NotImplementedError(f"mps has no {name}")
    if device == _CPU or name == "aten::_local_scalar_dense":
        _fetched.extend(one.numel() for one in flat if isinstance(one, ElsewhereTensor))
    inside = [_inside(one) for one in flat]
    known = {
        id(inner): one for inner, one in zip(inside, flat, strict=True) if isinstance(one, Tensor)
    }
    args, kwargs = tree_unflatten(inside, spec)

    def outside(one: Any) -> Any:
        if not isinstance(one, Tensor) or device is None:
            return one
        if device == MPS and one.dtype == torch.float64:
            raise TypeError("mps has no float64")
        given = known.get(id(one))
        if given is not None and given.device == device:
            return given
        one = one if given is None else one.clone()  # copied to another device
        return one if device == _CPU else ElsewhereTensor.of(one, device)

    return tree_map(outside, func(*args, **kwargs))


def _as_tensors(places: Any) -> tuple[Any, ...]:
    """Return an index without lists, which torch itself would make tensors of on the device."""
    every = places if isinstance(places, tuple) else (places,)
    return tuple(torch.tensor(one) if isinstance(one, list) else one for one in every)


def _inside(one: Any) -> Any:
    if isinstance(one, ElsewhereTensor):
        return one.inner
    return _CPU if isinstance(one, torch.device) else one


def _device(name: str, args: Any, flat: list[Any]) -> torch.device | None:
    """Return where an operation's result is; RuntimeError where its tensors are in two places."""
    tensors = [one for one in flat if isinstance(one, Tensor)]
    for one in flat:
        if isinstance(one, torch.device):
            place = torch.device(one.type, one.index or 0)
            real = {stand_in: device for device, stand_in in _STAND_INS.items()}
            return _CPU if one.type == "cpu" else real.get(place, place)
    if name == "aten::to" or name in _COPIES:
        return tensors[-1 if name == "aten::to" else 0].device
    if name in _PLACES:
        tensors = [args[0], *(one for one in tensors if one.device != _CPU)]
    devices = {one.device for one in tensors if one.ndim}
    if len(devices) > 1:
        both = ", ".join(sorted(map(str, devices)))
        raise RuntimeError(f"{name} expects all tensors on one device, got {both}")
    if devices:
        return devices.pop()
    numbers = [one.device for one in tensors]
    return next((device for device in numbers if device != _CPU), _CPU if numbers else None)
