"""Comparison of the docs' pictures with what the app shows now.

Not pixel by pixel: another machine has other fonts, and the last digits of its numbers differ. Each
picture carries what can be read on its page (its accessibility tree); that has to say the same, up
to small differences of its numbers. What is drawn is compared in squares, coarsely.
"""

import difflib
import math
import re

import numpy as np
from PIL import Image

SEEN = "seen"  # the name under which a PNG carries its page's text
SQUARE = 40  # pixels
CHANGED = 0.1  # of the way from black to white: a square that differs by more has changed
MANY = 0.15  # so large a share of changed squares is another picture
NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
FLEETING = re.compile(  # of this run, this machine, this port
    r"computed in [\d.]+ m?s|Takes (a few|about \d+) (seconds|minutes)|^ *- /url: .*\n", re.M
)


def differences(taken: Image.Image, kept: Image.Image) -> list[str]:
    """Describe what differs between a new picture and the stored one; empty if alike.

    Args:
        taken, kept: as PNG files hold them, with the text of their page in `info["seen"]`.
    """
    if taken.size != kept.size:
        return [f"it is {taken.size} pixels large and was {kept.size}"]
    found = changed_lines(kept.info.get(SEEN, ""), taken.info.get(SEEN, ""))
    share = changed_share(taken, kept)
    return [*found, *([f"{share:.0%} of it is drawn otherwise"] if share > MANY else [])]


def lasting(seen: str) -> str:
    """Return the text of a page without what differs from run to run."""
    return FLEETING.sub("", seen)


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that only one of the texts has, with a "-" or a "+"; near numbers are the same."""
    old, new = before.splitlines(), after.splitlines()
    plain_old, plain_new = ([NUMBER.sub("#", line) for line in lines] for lines in (old, new))
    found = []
    matcher = difflib.SequenceMatcher(None, plain_old, plain_new, autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        same = kind == "equal"
        pairs = zip(old[i:i_end], new[j:j_end], strict=True) if same else ()
        found += [f"-{a.strip()} +{b.strip()}" for a, b in pairs if not _near(a, b)]
        found += [] if same else [f"-{line.strip()}" for line in old[i:i_end]]
        found += [] if same else [f"+{line.strip()}" for line in new[j:j_end]]
    return found


def changed_share(taken: Image.Image, kept: Image.Image) -> float:
    """The share of squares whose mean brightness differs, in [0, 1]."""
    size = tuple(math.ceil(side / SQUARE) for side in kept.size)
    first, second = (
        np.asarray(picture.convert("L").resize(size, Image.Resampling.BOX), dtype=float) / 255
        for picture in (taken, kept)
    )
    return float((abs(first - second) > CHANGED).mean())


def _near(before: str, after: str) -> bool:
    """Tell whether two lines with the same words have nearly the same numbers."""
    numbers = [
        [float(number.replace(",", "").replace("−", "-")) for number in NUMBER.findall(line)]
        for line in (before, after)
    ]
    return bool(np.allclose(*numbers, rtol=0.02, atol=0.02))
