"""Compute what the labs show by default, and store it with the app.

    python -m models.store_lab_runs [NAME ...]

To be called again whenever a lab's numbers or a shipped model change; a test says when.
"""

import sys
from importlib import import_module
from typing import Any

from mha_viz.core import stored_runs
from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.why import pruning


def all_runs() -> list[stored_runs.StoredRun[Any]]:
    """List the runs that the labs' `numbers`, and Why, declare as STORED, in their order."""
    numbers = [import_module(lab.module.removesuffix("page") + "numbers") for lab in LABS]
    return [run for module in (*numbers, pruning) for run in getattr(module, "STORED", ())]


def main(names: list[str]) -> None:
    runs = {run.name: run for run in all_runs()}
    if unknown := set(names) - runs.keys():
        sys.exit(
            f"No stored run is called {', '.join(sorted(unknown))}. There are {', '.join(runs)}."
        )
    for name in names or runs:
        stored_runs.write(runs[name], runs[name].make())
        print(f"{runs[name].path}: {runs[name].path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
