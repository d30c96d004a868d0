"""Payload of the spaces of a head: tokens in panels, and what they are coloured by."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Num

from mha_viz.errors import ShapeError
from mha_viz.web.labels import clean
from mha_viz.web.payload import pack

UNIT = 65534  # steps of a coordinate: 1 is the longer side of a panel's points
_LETTERS = 90  # of a text


def spaces_payload(
    points: Float[np.ndarray, "panel token 2"],
    values: Num[np.ndarray, " token"],
    panels: Sequence[tuple[str, tuple[str, str]]],
    tokens: Sequence[str],
    about: Mapping[str, Any],
) -> bytes:
    """Pack tokens on two components in each panel.

    In the body: the values (float32), and x and y around the middle of a panel's points in steps of
    1 / 65,534 of their longer side (int16, y upwards). In the header: each panel's name and axes,
    width and height of its points by the longer side, and where the mean of all vectors lies.

    Args:
        points: of each panel.
        values: what tokens are coloured by: a number, or that of its category.
        panels: name, and titles of both axes.
        tokens: labels.
        about: `name`, `text` and `position` of each token, `texts`, and `colour`: title, names of
            the categories, whether the last is grey (`full`), limits and their words (`ends`).

    Raises:
        ShapeError: panels, values and tokens of different numbers.
    """
    if points.shape[:2] != (len(panels), len(tokens)) or len(values) != len(tokens):
        raise ShapeError(f"{points.shape} points do not fit {len(panels)} panels of tokens.")
    coordinates = points.astype(np.float64)
    low, high = coordinates.min(1), coordinates.max(1)
    middle, reach = (low + high) / 2, high - low
    side = np.maximum(reach.max(1, keepdims=True), 1e-30)
    steps = np.rint((coordinates - middle[:, None]) / side[:, None] * UNIT).astype("<i2")
    sizes, origins = (reach / side).tolist(), (-middle / side).clip(-4, 4).tolist()
    drawn = [
        {
            "name": clean(name),
            "axes": list(axes),
            "width": width,
            "height": height,
            "origin": origin,
        }
        for (name, axes), (width, height), origin in zip(panels, sizes, origins, strict=True)
    ]
    header = {
        "kind": "spaces",
        **about,
        "panels": drawn,
        "tokens": [clean(token) for token in tokens],
        "texts": [clean(text, _LETTERS) for text in about["texts"]],
    }
    return pack(header, values.astype("<f4").tobytes() + steps.tobytes())
