"""Colours keep their promises: even lightness, enough contrast, told apart by every eye."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import mha_viz
from mha_viz.web import theme
from mha_viz.web.browser import script, style

# Simulation of the three dichromacies on linear RGB (Machado, Oliveira and Fernandes 2009).
MACHADO = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    value = np.array(theme.rgb(colour)) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    to_lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return to_lab @ np.cbrt(to_lms @ np.clip(rgb, 0, 1))


def contrast(one: str, other: str) -> float:
    light, dark = sorted(
        (float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("eye", [None, *MACHADO])
def test_sequential_scales_run_evenly(dark: bool, eye: str | None) -> None:
    view = np.eye(3) if eye is None else np.array(MACHADO[eye])
    lightness = np.array([oklab(view @ linear(colour))[0] for colour in theme.sequential(dark)])
    steps = np.diff(lightness) * (1 if dark else -1)
    assert (steps > 0.03).all()
    if eye is None:
        assert np.ptp(steps) < 0.01


@pytest.mark.parametrize("dark", [False, True])
def test_line_colours_are_seen_and_told_apart(dark: bool) -> None:
    colours = theme.qualitative(dark)
    assert len(set(colours)) == 8
    for colour in colours:
        assert contrast(colour, theme.paper(dark)) >= 3
    for view in (np.eye(3), *map(np.array, MACHADO.values())):
        for one, other in itertools.combinations(colours, 2):
            distance = np.linalg.norm(oklab(view @ linear(one)) - oklab(view @ linear(other)))
            assert distance > 0.06


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible(dark: bool) -> None:
    assert contrast(theme.ink(dark), theme.paper(dark)) >= 7
    assert contrast(theme.muted(dark), theme.paper(dark)) >= 4.5
    assert contrast(theme.accent(dark), theme.paper(dark)) >= 3


@pytest.mark.parametrize("scale", theme.SCALES)
def test_scales_are_monotone_and_invertible(scale: str) -> None:
    weights = np.linspace(0, 1, 1001, dtype=np.float32)
    places = theme.scale_weights(weights, scale)
    assert places[0] == 0 and places[-1] == pytest.approx(1) and (np.diff(places) > 0).all()
    assert theme.unscale_weights(places.astype(float), scale) == pytest.approx(weights, abs=1e-5)


def test_joined_scripts_are_one_module_without_double_names() -> None:
    for name in (
        "class_cookie",
        "reconnect",
        "head_grid",
        "head_switches",
        "page_address",
        "payload_carrier",
        "sentence_arcs",
        "workbench",
    ):
        text = script(name)
        assert not re.search(r"^import ", text, re.MULTILINE)
        assert text.count("export") == 1 and re.search(r"^export default ", text, re.MULTILINE)
        assert text.startswith("const PALETTE = {")
        names = re.findall(r"^(?:async )?(?:function|class|const) (\w+)", text, re.MULTILINE)
        assert len(names) == len(set(names))
        assert "</script" not in text
    assert ".head-grid" in style("head_grid")


def test_components_never_write_markup() -> None:
    scripts = sorted((Path(mha_viz.__file__).parent / "web" / "components").glob("*/*.js"))
    assert scripts
    for file in scripts:
        text = file.read_text(encoding="utf-8")
        # Tokens are text that anybody typed: set as text, never read as HTML. These are the
        # names by which a script would do the latter, looked for so that none comes in.
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text)
        # The name of a namespace is no address: nothing is asked for there.
        assert "http" not in text.replace('"http://www.w3.org/2000/svg"', "")
