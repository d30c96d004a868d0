"""How much memory the server takes: its own process and those that it has started."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def used() -> int | None:
    """Bytes in memory of this process and its children; None where the system does not tell.

    Of a child only what it shares with nobody counts: the libraries that all have loaded lie in
    memory once.
    """
    own = _pages(os.getpid())
    if own is None:
        return None
    children = (_pages(child) for child in _below(os.getpid()))
    pages = own[0] + sum(found[0] - found[1] for found in children if found is not None)
    return pages * os.sysconf("SC_PAGE_SIZE")


def free() -> int | None:
    """Bytes that this machine, or the container that the server is in, has left; None if unknown.

    A container may have less than its machine.
    """
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return None
    left = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    group = Path("/sys/fs/cgroup")
    try:
        most = int((group / "memory.max").read_text())
        taken = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no limit, or no such group
        return left
    return min(left, most - taken)


def _pages(process: int) -> tuple[int, int] | None:
    """Resident and shared pages of a process; None where it has ended."""
    try:
        fields = (_PROC / str(process) / "statm").read_text().split()
    except OSError:
        return None
    return int(fields[1]), int(fields[2])


def _below(process: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found: list[int] = []
    for listed in (_PROC / str(process) / "task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text().split()]
        except OSError:  # the thread has ended
            continue
        for child in children:
            found += [child, *_below(child)]
    return found
