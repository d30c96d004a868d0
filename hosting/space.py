"""Lay out the folder that a Hugging Face Space is made of: `make space OUT=folder`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hosting.dockerfile import copied_files, read_stages
from mha_viz.errors import ArgumentError

ROOT = Path(__file__).parents[1]
CARD = Path(__file__).with_name("space.md")  # its README; the Hub reads what stands at its head


def lay_out(folder: Path) -> int:
    """Copy what the image is built from into a new folder, with the Space's own README.

    Returns:
        how many files the folder holds.

    Raises:
        ArgumentError: the folder holds something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArgumentError(f"Expected a new or empty folder, got {folder}: name another one.")
    ignore = (ROOT / ".dockerignore").read_text("utf-8")
    names = [*copied_files(ROOT, ignore), Path("Dockerfile"), Path(".dockerignore")]
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    (folder / "README.md").write_text(card(), "utf-8")
    return len(names)


def card() -> str:
    """The Space's README, with the port that the Dockerfile exposes."""
    (port,) = read_stages((ROOT / "Dockerfile").read_text("utf-8"))[-1].last("EXPOSE").words({})
    return CARD.read_text("utf-8").replace("PORT", port, 1)


def main() -> int:
    """The command."""
    try:
        if len(sys.argv) != 2 or not sys.argv[1]:
            raise ArgumentError("Expected the folder to lay out: make space OUT=folder.")
        count = lay_out(Path(sys.argv[1]))
    except (ArgumentError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"wrote {count} files to {sys.argv[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
