"""Measure, print, and write the tables of docs/benchmarks.md: `python -m benchmarks [subject ...]`.

A subject that this machine cannot measure (no Chromium, no BertViz) says so; the rest still runs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, Skipped, gflops, machine
from mha_viz.core.output_file import write_file

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
SUBJECTS = (
    *("trace", "long", "report", "importance", "grid", "workbench"),
    *("study", "study_size", "start", "opening", "app", "labs", "memory"),
    *("composition", "circuits", "maps", "crowd"),
)
ALONE = ("soak", "siege")  # run for long, and only where they are asked for
ON_DEVICE = "cards"  # what `--device` measures
HEAD = ("measure", "value", "beside", "ratio", "aim", "")


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
        text = measured(name, **on_device)
        print(text, flush=True)
        if not options.dry:
            write(name, text)


def measured(name: str, **options: Any) -> str:
    """One subject's section of the page."""
    subject = import_module(f"benchmarks.{name}")
    before = gflops()
    try:
        body = table(subject.measure(**options))
    except Skipped as reason:
        body = f"Not measured here: {reason}."
    speed = f"{before:,.0f} GFLOP/s before and {gflops():,.0f} after"
    about = f"Product of two 2048 x 2048 float32 matrices: {speed}.\n{machine()}."
    if options:
        about = f"Measured on {subject.name_of(**options)}; beside it:\n{about}"
    return f"## {subject.TITLE}\n\n{subject.ABOUT}\n\n{body}\n\n{about}"


def table(results: Sequence[Result]) -> str:
    rows = [HEAD, ("---",) * len(HEAD)]
    rows += [(r.measure, r.ours, r.beside, r.ratio, r.aim, r.verdict) for r in results]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Put a section between its markers; the page's other words stay."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n{text}\n{end}"
    found = page.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    new, n = pattern.subn(lambda _: section, found)
    if n != 1:
        raise SystemExit(f"{page.name} must hold {begin} ... {end} once")
    write_file(page, new.encode())


if __name__ == "__main__":
    main()
