"""The packages that pyproject.toml declares."""

import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

SETTINGS: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
)
PROJECT = SETTINGS["project"]


def of_extra(extra: str) -> list[str]:
    """The requirements of an extra, and of the extras that it names."""
    found = []
    for line in PROJECT["optional-dependencies"][extra]:
        one = Requirement(line)
        inner = sorted(one.extras) if one.name == PROJECT["name"] else []
        found += [deep for name in inner for deep in of_extra(name)] or [line]
    return found
