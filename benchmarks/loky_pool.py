"""Trial of loky's executor as the pool of heavy work: `python -m benchmarks.loky_pool`.

Run with loky installed (`pip install loky`), which the app does not need. Tried with loky 3.5. It
prints, for each reason that the app has for processes of its own (`mha_viz.ui.jobs.process`),
whether it holds of loky.
"""

import os
import signal
import sys
import time

SECRET = "A_SECRET_OF_THE_SERVER"


def secret() -> str | None:
    """Return what a worker knows of the server's environment."""
    return os.environ.get(SECRET)


def main_module() -> str:
    """Return the file that a worker runs as `__main__`."""
    return str(sys.modules["__main__"].__file__)


def slow(seconds: float) -> int:
    """Work for so long, and return the number of the process."""
    time.sleep(seconds)
    return os.getpid()


def main() -> None:
    """Try each reason, and print what came of it."""
    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    os.environ[SECRET] = "known"
    with ProcessPoolExecutor(max_workers=2) as pool:
        again = pool.submit(main_module).result() == main_module()
        print(f"A worker runs the server's __main__ once more: {again}")
        print(f"A worker inherits the server's secrets: {pool.submit(secret).result() == 'known'}")
        others = pool.submit(slow, 30)
        os.kill(pool.submit(slow, 0.1).result(), signal.SIGKILL)
        try:
            others.result()
            ended = False
        except TerminatedWorkerError:
            ended = True
        print(f"Killing a worker ends the work of the others: {ended}")


if __name__ == "__main__":
    main()
