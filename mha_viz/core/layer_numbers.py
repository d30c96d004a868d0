"""The numbers that a model gives its layers of attention, and the names of heads made of them.

A hybrid model has layers without attention: of its layers 0 to 7 only 3 and 7 may have heads. An
array's `layer` axis then has two rows, at the positions 0 and 1, whose numbers are 3 and 7. Arrays
are indexed by position; a head's name holds the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index
from typing import Any, SupportsIndex

from mha_viz.errors import ArgumentError, RecordError


def checked_numbers(layer_numbers: Any, n_layers: int) -> tuple[int, ...]:
    """Return a number for each layer as ints; nothing given counts them from 0.

    Raises RecordError: another count, numbers that do not increase, or that are none.

    >>> checked_numbers([3, 7], 2), checked_numbers((), 3)
    ((3, 7), (0, 1, 2))
    """
    try:
        numbers = [-1 if isinstance(number, bool) else index(number) for number in layer_numbers]
    except TypeError:
        numbers = [-1]
    if not numbers:
        return tuple(range(n_layers))
    rises = all(before < after for before, after in pairwise(numbers))
    if len(numbers) != n_layers or numbers[0] < 0 or not rises:
        raise RecordError(
            f"layer numbers must be {n_layers} increasing whole numbers from 0, one for each layer "
            f"of weights, got {layer_numbers!r:.80}."
        )
    return tuple(numbers)


def is_counted(numbers: Sequence[int]) -> bool:
    """Return whether each number is its position, as in a model all of whose layers attend.

    >>> is_counted((0, 1, 2)), is_counted((1, 3)), is_counted(())
    (True, False, True)
    """
    return all(position == number for position, number in enumerate(numbers))


def number_at(numbers: Sequence[int], position: SupportsIndex) -> int:
    """Return the number of the layer at a position; the position itself where none are given."""
    return numbers[index(position)] if numbers else index(position)


def position_of(numbers: Sequence[int], layer: Any) -> int:
    """Return the position of a layer on the axis.

    Raises ArgumentError: not the number of a layer with attention; the message names them.

    >>> position_of((3, 7), 7)
    1
    """
    try:
        number = index(layer)
    except TypeError as error:
        raise ArgumentError(f"layer must be a whole number, got {layer!r:.60}.") from error
    if number in numbers:
        return list(numbers).index(number)
    raise ArgumentError(f"There is no layer {number}: {layers_in_words(numbers)}.")


def checked_position(numbers: Sequence[int], layer: int) -> int:
    """Return the position of a layer; as it is, unchecked, where numbers count from 0."""
    return layer if is_counted(numbers) else position_of(numbers, layer)


def layers_in_words(numbers: Sequence[int]) -> str:
    """Return the numbers of the layers with attention as the clause of a sentence.

    >>> layers_in_words((0, 1, 2)), layers_in_words((3, 7))
    ('layers are 0..2', 'layers with attention are 3, 7')
    """
    if is_counted(numbers):
        return f"layers are 0..{len(numbers) - 1}"
    return f"layers with attention are {', '.join(map(str, numbers))}"


def head_name(layer: SupportsIndex, head: SupportsIndex, *, numbers: Sequence[int] = ()) -> str:
    """Return the name of the head at a position; `numbers` are those of the layers.

    >>> head_name(3, 7), head_name(1, 7, numbers=(3, 5))
    ('L3 H7', 'L5 H7')
    """
    return f"{layer_name(layer, numbers)} H{head}"


def layer_name(layer: SupportsIndex, numbers: Sequence[int] = ()) -> str:
    """Return the name of the layer at a position.

    >>> layer_name(3), layer_name(1, (3, 5))
    ('L3', 'L5')
    """
    return f"L{number_at(numbers, layer)}"


def layer_names(n_layers: int, numbers: Sequence[int] = ()) -> list[str]:
    """Return the names of all layers of an axis, in order.

    >>> layer_names(2), layer_names(2, (3, 7))
    (['L0', 'L1'], ['L3', 'L7'])
    """
    return [layer_name(layer, numbers) for layer in range(n_layers)]


def numbered(heads: Iterable[tuple[int, int]], numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return heads at positions by their layers' numbers, as they are named.

    >>> numbered([(0, 2), (1, 4)], (3, 7))
    [(3, 2), (7, 4)]
    """
    return [(number_at(numbers, layer), head) for layer, head in heads]


def without_attention(numbers: Sequence[int], n_layers: int) -> str:
    """Say which of a model's layers have no attention; "" where all have.

    >>> without_attention((3, 7), 8)
    'Layers 0–2 and 4–6 have no attention over the text.'
    >>> without_attention((0, 1, 2), 4), without_attention((0, 1), 2)
    ('Layer 3 has no attention over the text.', '')
    """
    missing = sorted(set(range(n_layers)) - set(numbers))
    runs: list[list[int]] = []
    for number in missing:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(missing) < 2:
        return f"Layer {missing[0]} has no attention over the text." if missing else ""
    names = [f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    return f"Layers {listed} have no attention over the text."
