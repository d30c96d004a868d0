"""The memory that this machine, or the container of the process, has left."""

from contextlib import suppress
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")  # of a container, which may have less than its machine


def available() -> int | None:
    """Return the bytes that can be taken without swapping; None where the system does not tell.

    Pages of files that can be dropped and read again count as left.
    """
    free_bytes = None
    with suppress(OSError, KeyError):  # another system than Linux
        free_bytes = 1024 * _numbers(_MACHINE)["MemAvailable:"]
        with suppress(OSError, ValueError, KeyError):  # no limit, or no such group
            most = int((_GROUP / "memory.max").read_text())
            used_bytes = int((_GROUP / "memory.current").read_text())
            free_bytes = min(
                free_bytes, most - used_bytes + _numbers(_GROUP / "memory.stat")["inactive_file"]
            )
    return free_bytes


def _numbers(file: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    return {line.split()[0]: int(line.split()[1]) for line in file.read_text().splitlines()}
