"""Invertible scales, and scripts that write no markup."""

import re
from pathlib import Path

import numpy as np
import pytest

import mha_viz
from mha_viz.web import theme


@pytest.mark.parametrize("scale", theme.SCALES)
def test_scales_are_monotone_and_invertible(scale: str) -> None:
    weights = np.linspace(0, 1, 1001, dtype=np.float32)
    places = theme.scale_weights(weights, scale)
    assert places[0] == 0 and places[-1] == pytest.approx(1) and (np.diff(places) > 0).all()
    assert theme.unscale_weights(places.astype(float), scale) == pytest.approx(weights, abs=1e-5)


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
