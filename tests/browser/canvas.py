"""Readings of what a page has painted, and where."""

import base64
import re

import numpy as np
from playwright.sync_api import Page


def pixels(page: Page, selector: str) -> np.ndarray:
    """The canvas's own pixels, RGBA."""
    size, data = page.locator(selector).evaluate(
        """canvas => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            let text = "";
            for (let i = 0; i < data.length; i += 8192)
                text += String.fromCharCode(...data.subarray(i, i + 8192));
            return [[height, width], btoa(text)];
        }"""
    )
    return np.frombuffer(base64.b64decode(data), dtype=np.uint8).reshape(*size, 4)


def tile_box(page: Page, layer: int, head: int) -> dict[str, float]:
    """Find a tile of the matrix from the labels around it."""
    page.locator(".head-grid .axis").first.wait_for()
    canvas = page.locator(".head-grid .cells").bounding_box()
    row = page.locator(".head-grid .axis.row", has_text=re.compile(rf"^L{layer}$")).bounding_box()
    column = page.locator(".head-grid .axis.column", has_text=re.compile(rf"^H{head}$"))
    box = column.bounding_box()
    assert canvas and row and box
    size = page.locator(".head-grid .selected").bounding_box()
    assert size
    side = size["width"] - 6
    x = box["x"] + box["width"] / 2 - side / 2
    y = row["y"] + row["height"] / 2 - side / 2
    return {"x": x, "y": y, "side": side}


def point_at(page: Page, layer: int, head: int, query: int, key: int, n: int = 12) -> None:
    tile = tile_box(page, layer, head)
    cell = tile["side"] / n
    page.mouse.move(tile["x"] + (key + 0.5) * cell, tile["y"] + (query + 0.5) * cell)
