"""Python processes of our own, started without this process's secrets and always ended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mha_viz import errors

# What one may know of this process's environment: where programs and libraries are, no secrets.
_ENVIRONMENT = (
    "PATH HOME USERPROFILE SYSTEMROOT TMPDIR TEMP TMP LANG LC_ALL LC_CTYPE LD_LIBRARY_PATH "
    "DYLD_LIBRARY_PATH VIRTUAL_ENV"
).split()


def start(
    module: str, *arguments: str, files: Sequence[int] = (), **environment: str
) -> subprocess.Popen[bytes]:
    """Start one of our modules in a process with pipes for its standard streams."""
    package = str(Path(errors.__file__).absolute().parents[1])
    paths = [package, *(path for path in sys.path if os.path.isabs(path))]
    variables = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    variables |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # macOS: libraries are loaded, none has run
    }
    return subprocess.Popen(
        # -P: what lies in the folder that somebody happens to work in is not imported.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables | environment,
        pass_fds=files,
        start_new_session=True,  # Ctrl-C is not for it
    )


def keep_output() -> BinaryIO:
    """Return this process's standard output; what libraries write goes nowhere from now on."""
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    return answers


def start_timer(seconds: float, then: Callable[..., object], *arguments: object) -> threading.Timer:
    """Call a function after so many seconds, in a thread that keeps no process alive."""
    timer = threading.Timer(seconds, then, arguments)
    timer.daemon = True
    timer.start()
    return timer


def kill(process: subprocess.Popen[bytes]) -> None:
    """End it and the children that it waits for, which are a group of their own."""
    if process.returncode is not None:  # waited for: its number may be another's by now
        return
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def terminate(process: subprocess.Popen[bytes]) -> None:
    """End it, and wait until nothing of it is left."""
    kill(process)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()
