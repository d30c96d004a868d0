"""A notebook for each lab: its check passes with the solution, and fails before it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mha_viz.learn.frame.contents import LABS

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks" / "labs"


def cells(key: str) -> list[tuple[str, str]]:
    """The cells of a notebook: what each is for, and its source."""
    found = json.loads((FOLDER / f"{key}.ipynb").read_text("utf-8"))["cells"]
    return [
        ((cell["metadata"].get("tags") or [cell["cell_type"]])[0], "".join(cell["source"]))
        for cell in found
    ]


def solution(key: str) -> str:
    """The code under "Solution"."""
    text = "".join(source for kind, source in cells(key) if kind == "markdown")
    (code,) = re.findall(r"<summary>Solution</summary>\n\n```python\n(.*?)\n```", text, re.S)
    return code


def run(key: str, *, solved: bool) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    for kind, source in cells(key):
        if kind not in ("markdown", "install"):
            code = solution(key) if solved and kind == "exercise" else source
            exec(compile(code, f"{key}.ipynb, {kind}", "exec"), scope)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)
def test_the_solution_passes_the_check(lab: Any) -> None:
    run(lab.key, solved=True)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.key)
def test_an_empty_exercise_does_not(lab: Any) -> None:
    with pytest.raises(AssertionError):
        run(lab.key, solved=False)
