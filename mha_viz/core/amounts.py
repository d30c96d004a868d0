"""Large counts and sizes, written short."""

_COUNTS = ("", " k", " M", " B", " T")
_BYTES = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


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
