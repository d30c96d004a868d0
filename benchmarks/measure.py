"""Clocks, medians and the speed of the machine; knows nothing of what is measured."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

SIDE = 2048  # of the matrices whose product says how fast this machine is

NOISE = 0.05  # of an aim: a median that misses it by no more has met it


@dataclass(frozen=True)
class Result:
    """One line of a table: what was measured, beside what, and what had been aimed at."""

    measure: str
    ours: str
    beside: str = ""
    ratio: str = ""
    aim: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        return "" if self.met is None else "met" if self.met else "**missed**"


def at_most(median: float, aim: float) -> bool:
    """Tell whether a median is as small as aimed at, within 5 %."""
    return median <= aim * (1 + NOISE)


def at_least(median: float, aim: float) -> bool:
    """Tell whether a median is as large as aimed at, within 5 %."""
    return median >= aim / (1 + NOISE)


class Skipped(Exception):
    """Lack of what a measurement needs on this machine; the message says of what."""


def interleaved(
    ways: Mapping[str, Callable[[], Any]],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each way, run in turns (a, b, a, b ...): what disturbs one disturbs all."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        for _ in range(warm_up):
            way()
    for _ in range(repeats):
        for name, way in ways.items():
            gc.collect()  # the garbage of one way is not the other's work
            begin = clock()
            result = way()
            seconds[name].append(clock() - begin)
            del result  # outside the clock
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median over the rounds of ours / theirs, each taken from neighbouring moments."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def spread(values: list[float], scale: float = 1.0, unit: str = "", digits: int = 0) -> str:
    """Median and, in brackets, the smallest and the largest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    text = f"{middle * scale:,.{digits}f}{unit}"
    if len(values) == 1:
        return text
    return f"{text} ({low * scale:,.{digits}f}-{high * scale:,.{digits}f})"


def gflops(repeats: int = 5) -> float:
    """Speed of a float32 matrix product on this machine as it is now, median of `repeats`."""
    a, b = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    seconds = interleaved({"product": lambda: a @ b}, repeats)["product"]
    return 2 * SIDE**3 / statistics.median(seconds) / 1e9


def machine() -> str:
    """Cores, threads and versions, in a line."""
    names = ("torch", "transformers", "numpy", "streamlit", "plotly", "playwright", "bertviz")
    versions = [f"{name} {found}" for name in names if (found := _version(name))]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{os.cpu_count()} cores, {torch.get_num_threads()} torch threads{load}; "
        f"Python {platform.python_version()}, " + ", ".join(versions)
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
