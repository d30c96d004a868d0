"""No table leaves the app as a CSV that Streamlit writes: that one lets formulas through."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_have_no_download_but_ours() -> None:
    options = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert options["client"]["disableDataExport"] is True
