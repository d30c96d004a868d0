"""Numbers, counts and sizes, written for people. shared.js writes numbers in the same way."""

import math
from decimal import ROUND_HALF_UP, Context
from typing import SupportsFloat

_SMALLEST, _LARGEST = 1e-4, 1e6  # numbers between these are written without an exponent
_COUNTS = ("", " k", " M", " B", " T")
_BYTES = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


def format_number(value: SupportsFloat, *, digits: int = 3, signed: bool = False) -> str:
    """Write any quantity with three significant digits, or fewer, and a true minus.

    Whole numbers below a million stay whole, unless fewer `digits` are asked for; `signed` puts a
    plus before positive numbers.

    >>> [format_number(v) for v in (0.5, -0.12345, 12345.6, 2048, -1.5e-7, float("nan"))]
    ['0.5', '−0.123', '12,300', '2,048', '−1.5e−7', 'not defined']
    """
    number = float(value)
    if not math.isfinite(number):
        return "not defined"
    sign = "−" if number < 0 else "+" if signed and number > 0 else ""
    number = abs(number)
    if number == 0 or (number.is_integer() and number < _LARGEST and digits == 3):
        return f"{sign}{number:,.0f}"
    rounded = _round(number, digits)
    if not _SMALLEST <= rounded < _LARGEST:
        mantissa, _, power = f"{rounded:.{digits - 1}e}".partition("e")
        return f"{sign}{float(mantissa):g}{_exponent(power)}"
    return sign + (f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.3g}")


def format_weight(weight: SupportsFloat) -> str:
    """Write a weight as `format_number` writes a number, but keep zeros at the end.

    >>> [format_weight(w) for w in (0, 1, 0.12345, 0.05, 0.00001)]
    ['0', '1.00', '0.123', '0.0500', '1.00e−5']
    """
    number = float(weight)
    if number == 0 or not abs(number) < 100:
        return format_number(number)
    sign, rounded = "−" if number < 0 else "", _round(abs(number), 3)
    if rounded < _SMALLEST:
        mantissa, _, power = f"{rounded:.2e}".partition("e")
        return f"{sign}{mantissa}{_exponent(power)}"
    return sign + f"{rounded:#.3g}".removesuffix(".")


def format_share(share: SupportsFloat, digits: int = 0) -> str:
    """Write a share as a percentage, with `digits` after the point and a space that does not break.

    >>> format_share(0.538), format_share(-0.0316, 1)
    ('54\\xa0%', '−3.2\\xa0%')
    """
    return true_minus(f"{100 * float(share):.{digits}f}\N{NO-BREAK SPACE}%")


def _round(number: float, digits: int) -> float:
    """Round to significant digits, ties away from zero, as JavaScript does."""
    return float(Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal_from_float(number))


def _exponent(power: str) -> str:
    """Write a power of ten, such as "-07", after its digits."""
    return f"e{int(power)}".replace("-", "−")


def true_minus(text: str) -> str:
    """Return a number that is written already with a true minus in place of a hyphen."""
    return text.replace("-", "−")


def short(count: float | int) -> str:
    """Write a count with three digits and a letter: thousand, million, billion (10⁹), trillion.

    >>> short(12), short(4_718_592), short(1.5e11), short(1e16)
    ('12', '4.72 M', '150 B', '1e+16')
    """
    number, power = _thousands(count)
    return f"{number:.3g}{_COUNTS[power]}" if power < len(_COUNTS) else f"{count:.3g}"


def of_bytes(count: float | int) -> str:
    """Write a size in decimal units, as file managers and the Hub do: 1 MB is 10⁶ bytes.

    >>> of_bytes(512), of_bytes(37_748_736)
    ('512 bytes', '37.7 MB')
    """
    number, power = _thousands(count)
    return f"{number:.3g} {_BYTES[power]}"


def _thousands(count: float | int) -> tuple[float | int, int]:
    power = 0
    while abs(count) >= 999.5 and power < len(_BYTES) - 1:
        count, power = count / 1000, power + 1
    return count, power
