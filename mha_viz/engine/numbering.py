"""The numbers that a network gives its layers of attention."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def own_layer_numbers(
    network: nn.Module, modules: Sequence[nn.Module], n_layers: int
) -> tuple[tuple[int, ...], int]:
    """Return the network's own number of each layer of attention, and how many layers it has.

    A layer's number is its place in the stack's ModuleList, which hybrid families share between
    layers with attention and others; else the module's `layer_idx`. Where neither rises from call
    to call (ALBERT runs one module many times), and where the modules are not known, layers are
    counted in the order of their calls.

    Args:
        network: all of it.
        modules: those that called our attention function, in order; none where it did not run.
        n_layers: layers of attention.
    """
    positions = _stack_positions(network)
    calls = [positions.get(module, []) for module in modules]
    n_calls: dict[nn.Module, int] = {}
    called: list[tuple[nn.ModuleList, int]] = []
    for module, in_stacks in zip(modules, calls, strict=True):
        nth = n_calls[module] = n_calls.get(module, -1) + 1  # a stack may share modules
        called += in_stacks[nth : nth + 1]
    stacks = {id(stack) for stack, _ in called}
    if len(called) == n_layers and len(stacks) == 1 and _rises(at := [at for _, at in called]):
        return tuple(at), len(called[0][0])
    numbers = [getattr(module, "layer_idx", None) for module in modules]
    known_numbers = [number for number in numbers if isinstance(number, int)]
    if len(known_numbers) == n_layers and _rises(known_numbers):
        return tuple(known_numbers), known_numbers[-1] + 1
    return tuple(range(n_layers)), n_layers


def _stack_positions(network: nn.Module) -> dict[nn.Module, list[tuple[nn.ModuleList, int]]]:
    """Return for each module the outermost list that it is in, and where; shared ones: each."""
    lists = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList)
    }
    positions: dict[nn.Module, list[tuple[nn.ModuleList, int]]] = {}
    for path, module in network.named_modules(remove_duplicate=False):
        steps = path.split(".")
        for depth in range(1, len(steps)):
            stack = lists.get(".".join(steps[:depth]))
            if stack is not None:
                positions.setdefault(module, []).append((stack, int(steps[depth])))
                break
    return positions


def _rises(numbers: Sequence[int]) -> bool:
    return numbers[0] >= 0 and all(before < after for before, after in pairwise(numbers))
