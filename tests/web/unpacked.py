"""Payloads read as the browser reads them, for tests in Python."""

from typing import Any

import numpy as np

from mha_viz.web.payload import unpack


def grid_unpack(payload: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """The header and the codes (layer, head, row, column) of `grid_payload`."""
    header, body = unpack(payload)
    shape = tuple(header[name] for name in ("layers", "heads", "rows", "cols"))
    return header, np.frombuffer(body, dtype=np.uint8).reshape(shape)


def head_unpack(payload: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """The header and the weights of `head_payload`, row by row."""
    header, body = unpack(payload)
    return header, np.frombuffer(body, dtype="<f4")
