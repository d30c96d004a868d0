"""How much work something is, by counts that no machine and no load changes."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(function: Callable[..., Any], *args: Any) -> int:
    """How many lines of Python a call runs; each turn of a loop counts.

    What numpy and torch do within a line does not: what is written as one operation on an array is
    a handful of lines, what goes through its cells is a line for each of them.
    """
    count = 0

    def tracer(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return count


def system_calls(function: Callable[..., Any], *args: Any) -> int:
    """How many functions of the operating system a call asks, such as stat, scandir and unlink.

    Those are counted that Python's own code calls; what a compiled library does by itself is not.
    """
    count = 0

    def profiler(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "c_call" and getattr(arg, "__module__", None) in ("posix", "nt")

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count
