"""docs/hosting.md says of every setting what the code says."""

import re
from dataclasses import fields
from pathlib import Path

from mha_viz.ui.operating.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "hosting.md"


def test_the_table_of_settings_is_that_of_the_code():
    table = PAGE.read_text("utf-8").split("\n## ")[1]
    rows = {
        found[1]: (found[2], found[3])
        for found in re.finditer(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", table, re.M)
    }
    assert list(rows) == [choice.name for choice in fields(Settings)]
    for choice in fields(Settings):
        if "public" in (facts := choice.metadata):
            public, reach = rows[choice.name]
            assert public == f"{facts['public']:,.0f}"
            assert reach == f"{facts['low']:,} to {facts['high']:,}"
