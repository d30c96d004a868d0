"""Models that people look for, with what each is and the size of its weights.

All have safetensors weights on the Hub and ask for no agreement.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SuggestedModel:
    """One model of the Hub that is worth a place in the menu."""

    name: str
    about: str
    n_bytes: int


_ENTRIES = tomllib.loads(Path(__file__).with_name("suggested.toml").read_text("utf-8"))
SUGGESTED = tuple(
    SuggestedModel(name, entry["about"], entry["megabytes"] * 10**6)
    for name, entry in _ENTRIES.items()
)


def suggested(here: set[str]) -> list[SuggestedModel]:
    """Return the suggested models that are not on this machine.

    `here` are the names of models that are; the Hub's older ones have no owner
    ("bert-base-uncased").
    """
    known = {name.rpartition("/")[2] for name in here if "/" not in name} | here
    return [one for one in SUGGESTED if not {one.name, one.name.rpartition("/")[2]} & known]
