"""Models where the Hub's own library keeps what it has fetched."""

import shutil
from pathlib import Path

from tests.ui.serving import ROOT


def in_cache(root: Path, name: str) -> None:
    """A model as the Hub's own library keeps it: its files are checked before it is loaded."""
    folder = root / ("models--" + name.replace("/", "--")) / "snapshots" / "0"
    shutil.copytree(ROOT / "models/tiny-bert", folder)
