"""Regular expressions of a tokenizer: those that could take for ever are refused before they run.

The tokenizers library matches by backtracking. A pattern is parsed here, and two numbers bound the
ways in which it can match from one character of a text of n: `choices` times n to the power of
`loops`. A repeat counts only where something behind it can fail, which makes the library try the
repeat's other lengths.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_LENGTH = 10_000  # characters; the longest in use have some hundred
MAX_LOOPS = 1  # as in GPT-4o's; with two, 4,000 characters take minutes
MAX_CHOICES = 200  # GPT-4o's has 64
MAX_TIMES = 1_000  # a repeat with an end
_LOOSE = 20  # a part that may come so many times more or less counts as one without end
_FEW = 4  # a part with choices of its own may come so many times
_MAX_BEHIND = 30  # choices of a part that is looked for behind a place
_REPEAT = re.compile(r"(?:([*+?])|\{(\d*)(,?)(\d*)\})[?+]?")
_GROUP = re.compile(r"\(\?(?:[imsx-]*[:)]|[=!>]|<[=!]|P?<\w+>|P?'\w+')")
_ESCAPE = re.compile(r"\\(?:[pP]\{[^}]*\}|x\{[^}]*\}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|.)", re.S)
_CALLS = "kg123456789"


class PatternError(ValueError):
    """A pattern that is refused; its text says why."""


@dataclass(frozen=True)
class Ways:
    """The ways in which a part of a pattern matches."""

    choices: int = 1
    loops: int = 0  # repeats without end that are tried again where a later part fails
    last_loops: int = 0  # the same at the end, where no later part can fail yet
    can_fail: bool = True

    def then(self, other: "Ways") -> "Ways":
        """Return the ways of this part and another behind it."""
        loops, last_loops = self.loops + other.loops, other.last_loops
        if other.can_fail:
            loops += self.last_loops
        else:
            last_loops += self.last_loops
        can_fail = self.can_fail or other.can_fail
        return Ways(self.choices * other.choices, loops, last_loops, can_fail).checked()

    def instead(self, other: "Ways") -> "Ways":
        """Return the ways of this part or another in its place."""
        return Ways(
            self.choices + other.choices,
            max(self.loops, other.loops),
            max(self.last_loops, other.last_loops),
            self.can_fail and other.can_fail,
        ).checked()

    def checked(self) -> "Ways":
        """Return it again, unless a match could take for ever."""
        if self.loops > MAX_LOOPS:
            raise PatternError(f"{self.loops} repeats without end come before what can fail")
        if self.choices > MAX_CHOICES:
            raise PatternError("it can match in too many ways")
        return self


def check_pattern(pattern: str) -> Ways:
    r"""Return the ways in which a pattern matches; raise PatternError where they are too many.

    >>> check_pattern(r"'s|'t| ?[a-z]+|\s+(?!\S)|\s+")
    Ways(choices=6, loops=1, last_loops=1, can_fail=True)
    >>> check_pattern("(a+)+$")
    Traceback (most recent call last):
        ...
    mha_viz.checkpoints.tokenizer_patterns.PatternError: a repeat is repeated
    """
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"it has {len(pattern):,} characters")
    parser = _Parser(pattern)
    ways = parser.alternatives()
    if parser.at < len(pattern):
        raise PatternError("a bracket is closed that was not opened")
    return ways


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.depth = pattern, 0, 0

    def alternatives(self) -> Ways:
        """Read up to the end of a group, or of the pattern."""
        ways = self._sequence()
        while self._take("|"):
            ways = ways.instead(self._sequence())
        return ways

    def _sequence(self) -> Ways:
        ways = Ways(can_fail=False)
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self._part()
            while repeat := _REPEAT.match(self.pattern, self.at):
                self.at = repeat.end()
                part = _repeated(part, *repeat.groups())
            ways = ways.then(part)
        return ways

    def _part(self) -> Ways:
        if self.pattern[self.at] == "(":
            return self._group()
        if self.pattern[self.at] == "[":
            self._set()
        elif self.pattern[self.at] == "\\":
            return self._escape()
        else:
            self.at += 1
        return Ways()

    def _escape(self) -> Ways:
        escape = self._match(_ESCAPE.match, "it ends within an escape")
        if escape[1] in _CALLS:
            raise PatternError("it refers to what a group has matched")
        return Ways(choices=2) if escape[1] in "RX" else Ways()

    def _set(self) -> None:
        """Read a set of characters, which may have sets in it."""
        self.at += 1
        self._take("^")
        self._take("]")
        while not self._take("]"):
            if self.pattern.startswith("[", self.at):
                self._deeper(self._set)
            elif self.pattern.startswith("\\", self.at):
                self._match(_ESCAPE.match, "it ends within an escape")
            elif self.at >= len(self.pattern):
                raise PatternError("a set of characters has no end")
            else:
                self.at += 1

    def _group(self) -> Ways:
        start = "("
        if self.pattern.startswith("(?", self.at):
            start = self._match(_GROUP.match, "it has a group of an unknown kind")
        else:
            self.at += 1
        if "x" in start.partition("<")[0]:
            raise PatternError("it has a group of an unknown kind")
        if start.endswith(")"):  # options from here on
            return Ways(can_fail=False)
        ways = self._deeper(self.alternatives)
        if not self._take(")"):
            raise PatternError("a bracket is not closed")
        if start in ("(?<=", "(?<!") and (
            ways.loops or ways.last_loops or ways.choices > _MAX_BEHIND
        ):
            raise PatternError("it looks back over a repeat")
        return ways

    def _deeper(self, read: Callable[[], Ways | None]) -> Ways:
        self.depth += 1
        if self.depth > 50:
            raise PatternError("its brackets are nested too deeply")
        ways = read()
        self.depth -= 1
        return ways or Ways()

    def _match(self, match: Callable[[str, int], re.Match[str] | None], otherwise: str) -> str:
        matched = match(self.pattern, self.at)
        if matched is None:
            raise PatternError(otherwise)
        self.at = matched.end()
        return matched[0]

    def _take(self, sign: str) -> bool:
        if not self.pattern.startswith(sign, self.at):
            return False
        self.at += 1
        return True


def _repeated(part: Ways, sign: str | None, least: str, comma: str, most: str) -> Ways:
    """Return the ways of a part that is repeated: by a sign, or from `least` to `most` times."""
    if sign:
        low, high = (1 if sign == "+" else 0), (1 if sign == "?" else None)
    elif not least and not most:  # "{}" and "{,}" are characters
        return part
    else:
        low = int(least or 0)
        high = int(most) if most else None if comma else low
    if max(low, high or 0) > MAX_TIMES:
        raise PatternError(f"a part comes more than {MAX_TIMES:,} times")
    loops = part.loops + part.last_loops
    if (loops or part.choices > 1) and (high is None or high > _FEW):
        raise PatternError("a repeat is repeated")
    can_fail = part.can_fail and low > 0
    if high is None or high - low > _LOOSE:
        return Ways(part.choices, 0, 1, can_fail)
    if part.choices == 1 and not loops:
        return Ways(abs(high - low) + 1, can_fail=can_fail)
    times = max(high, 1)
    choices = (abs(high - low) + 1) * part.choices**times
    if times == 1:
        return Ways(choices, part.loops, part.last_loops, can_fail).checked()
    return Ways(choices, loops * times, 0, can_fail).checked()
