"""The controls of the sizes that labs 8 and 14 calculate with."""

from collections.abc import Mapping

import streamlit as st

from mha_viz.errors import MhaVizError
from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost.numbers import Sizes
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)
BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
LONG = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens


def sizes_of(choices: Choices, defaults: Mapping[str, int], n_bytes: int = 4) -> Sizes | None:
    """Draw controls of these sizes; None, and an error on screen, where they do not fit."""
    labels, notes = TEXTS.labels("sizes"), TEXTS.labels("sizes-help")
    with frame.row():
        chosen = {
            name: choices.number(
                name, labels[name], 0, 99_999_999, default, width=125, help=notes.get(name)
            )
            for name, default in defaults.items()
        }
        chosen["bytes_each"] = choices.menu("bytes", "Bytes per number", BYTES, n_bytes, width=190)
    try:
        return Sizes(**{"n": 1, **chosen})
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None
