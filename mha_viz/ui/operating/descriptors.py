"""File descriptors of the server: each connection takes one, and each page that runs a few more."""

import errno
import importlib
import os
from pathlib import Path
from types import ModuleType

resource: ModuleType | None
try:
    resource = importlib.import_module("resource")
except ImportError:  # Windows, which has no such limit
    resource = None

MAX_DESCRIPTORS = 65_536  # where the system allows any number
NEAR_LIMIT = 0.8  # share of the limit from which on no more visitors are admitted
_OPEN = Path("/dev/fd")


def raise_limit() -> None:
    """Raise the limit of open files to the system's own; shells set it to 1,024."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int | None:
    """Return how many descriptors there may be; None where any number."""
    if resource is None:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else int(soft)


def used() -> int | None:
    """Return how many are open; None where the system does not tell."""
    try:
        return len(os.listdir(_OPEN)) - 1  # without the one that lists them
    except OSError as error:  # none is left, or there is no such folder
        return limit() if error.errno in (errno.EMFILE, errno.ENFILE) else None


def are_few() -> bool:
    """Return whether few are left."""
    most, n_open = limit(), used()
    return most is not None and n_open is not None and n_open > NEAR_LIMIT * most
