"""Compute what the labs show by default, and store it with the app.

    python -m models.store_lab_runs [NAME ...]

To be called again whenever a lab's numbers or a shipped model change; a test says when.
"""

import sys

from mha_viz.learn.frame import stored_runs


def main(names: list[str]) -> None:
    runs = {run.name: run for run in stored_runs.all_runs()}
    if unknown := set(names) - runs.keys():
        sys.exit(
            f"No stored run is called {', '.join(sorted(unknown))}. There are {', '.join(runs)}."
        )
    for name in names or runs:
        stored_runs.write(runs[name], runs[name].make())
        print(f"{runs[name].path}: {runs[name].path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
