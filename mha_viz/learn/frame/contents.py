"""The labs in order, and the address of each; contents.toml lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mha_viz.learn.frame.records import read_records


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One lab.

    Args:
        key: its address is /lab-key, its folder mha_viz/learn/labs/key with _ for -.
        title: its name on screen.
        about: the question that it answers, in one sentence.
        goal: a learner's gain, behind "you can".
        minutes: that it takes, with its questions.
        needs: keys of the labs that it builds on.
        parts: the blocks of the map that it is about, by their keys there.
        pictured: the content of its picture in the list of labs, for those who do not see it.
        uses_text: whether it runs on the user's sentence and model.
    """

    key: str
    title: str
    about: str
    goal: str
    minutes: int
    needs: tuple[str, ...]
    parts: tuple[str, ...]
    pictured: str
    uses_text: bool = False

    @property
    def module(self) -> str:
        """The module that draws it."""
        return f"mha_viz.learn.labs.{self.key.replace('-', '_')}.page"

    @property
    def address(self) -> str:
        """The last part of its address."""
        return f"lab-{self.key}"


LABS = read_records(Lab, Path(__file__).with_suffix(".toml"), "lab")
BY_KEY = {lab.key: lab for lab in LABS}
