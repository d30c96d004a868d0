"""Measure, print, and write the tables of docs/benchmarks.md: `python -m benchmarks [subject ...]`.

A subject that this machine cannot measure (no Chromium, no BertViz) says so; the rest still runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from typing import Any

from benchmarks.measure import Skipped, gflops, machine
from benchmarks.page import update_page

SUBJECTS = (
    *("trace", "long", "report", "importance", "grid", "workbench"),
    *("study", "study_size", "start", "opening", "app", "labs", "memory"),
    *("composition", "circuits", "maps", "crowd"),
)
ALONE = ("soak", "siege")  # run for long, and only where they are asked for
ON_DEVICE = "cards"  # what `--device` measures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="subject", help=", ".join((*SUBJECTS, *ALONE))
    )
    parser.add_argument("--dry", action="store_true", help="print only, do not write the page")
    parser.add_argument("--fetch", action="store_true", help="download BertViz and TransformerLens")
    parser.add_argument("--device", help="cuda, cuda:1 ...: measure that device, and only it")
    options = parser.parse_args(arguments)
    if options.device and options.subjects:
        parser.error("--device measures what stands under its own heading: give no subject")
    unknown = set(options.subjects) - {*SUBJECTS, *ALONE}
    if unknown:
        parser.error(f"no such subject: {', '.join(sorted(unknown))}")
    if options.fetch:
        from benchmarks.peer import fetch

        fetch()
    on_device = {"device": options.device} if options.device else {}
    for name in (ON_DEVICE,) if on_device else options.subjects or SUBJECTS:
        run_bench(name, options.dry, **on_device)


def run_bench(name: str, dry: bool, **options: Any) -> None:
    """Measure one bench, print all of its results, and write those with an aim to the page."""
    bench = import_module(f"benchmarks.{name}")
    before = gflops()
    device = f", {bench.name_of(**options)}" if options else ""
    print(f"\n{bench.TITLE}\n\n{bench.ABOUT}\n")
    try:
        results = bench.measure(**options)
    except Skipped as reason:
        print(f"Not measured here: {reason}.", flush=True)
        return
    for r in results:
        print(*(cell for cell in (r.measure, r.ours, r.beside, r.ratio, r.aim, r.verdict) if cell),
              sep=" | ")  # fmt: skip
    speed = f"{before:,.0f} to {gflops():,.0f} GFLOP/s"
    print(f"\n{machine()}; {speed}", flush=True)
    if not dry:
        load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
        day = f"{date.today():%d %b %Y}"
        update_page(name, results, f"{day}, {os.cpu_count()} cores{load}, {speed}{device}")


if __name__ == "__main__":
    main()
