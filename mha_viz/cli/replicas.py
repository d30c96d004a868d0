"""Several processes of the web app behind one address, which Caddy shares out among them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import typer

from mha_viz.cli.server import announce_address, bracketed, free_ports, host_to_call
from mha_viz.corpus.store.temporary import REPLICAS, delete_left_behind, temporary_folder
from mha_viz.errors import MhaVizError
from mha_viz.ui.operating.settings import PREFIX, Settings
from mha_viz.ui.state.class_answers import classes

RESTARTS, WITHIN = 5, 60.0  # more starts of one process in so many seconds end them all
_CADDYFILE = Path(__file__).with_name("Caddyfile")
_LOOK = 0.2  # seconds between two looks at the processes
_STOPPING = 10.0  # seconds after which a process that was told to stop is killed


@dataclass
class Kept:
    """A process that is started again when it ends, unless it ends again and again."""

    name: str
    command: list[str]
    env: dict[str, str]
    log: Path | None = None  # of its standard error; None is that of this process
    running: subprocess.Popen[bytes] | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS + 1))

    def keep(self) -> None:
        """Start it where it does not run.

        Raises:
            MhaVizError: it has ended too often.
        """
        status = self.running and self.running.poll()
        if self.running is not None and status is None:
            return
        if len(self.starts) > RESTARTS and time.monotonic() - self.starts[0] < WITHIN:
            said = self.log.read_text(errors="replace").splitlines()[-1:] if self.log else []
            raise MhaVizError(
                f"{self.name} ended {len(self.starts)} times in a minute, the last time with exit "
                f"status {status}: {(said or ['its reason stands above'])[0]}"
            )
        if self.starts:
            typer.echo(
                f"note: {self.name} ended with exit status {status} and is started again.", err=True
            )
        self.starts.append(time.monotonic())
        with open(self.log or os.devnull, "ab") as log:
            errors = log if self.log else None
            self.running = subprocess.Popen(
                self.command, env=self.env, stdout=subprocess.DEVNULL, stderr=errors
            )


def serve(host: str, port: int, n: int, settings: Settings) -> None:
    """Serve the app by so many processes until Ctrl-C or SIGTERM, which stops them all.

    A process that ends is started again. Without the setting `shared` they share a folder that is
    deleted at the end.

    Raises:
        MhaVizError: there is no Caddy, a process ends again and again, or the shared folder cannot
            be written (SettingsError).
    """
    caddy = shutil.which("caddy")
    if caddy is None:
        raise MhaVizError(
            "--replicas needs Caddy, which is not installed here: install it "
            "(https://caddyserver.com/docs/install), or leave --replicas out."
        )
    ports = list(islice(free_ports(host, port), n))
    if len(ports) < n:
        raise MhaVizError(f"There are no {n} free ports after {port}: choose another --port.")
    delete_left_behind()
    with temporary_folder(REPLICAS) as folder:
        os.environ |= shared_settings(host, n, settings, folder)
        classes()  # where the shared folder cannot be written, now is the time to say so
        app = [sys.executable, "-m", "mha_viz", "app", "--host", host, "--port"]
        kept = [
            Kept(f"The process at port {one}", [*app, str(one)], dict(os.environ)) for one in ports
        ]
        proxy = [caddy, "run", "--config", str(_CADDYFILE), "--adapter", "caddyfile"]
        site = site_of(host, port, ports, settings, folder)
        kept.append(Kept("Caddy", proxy, os.environ | site, folder / "caddy.log"))
        with announce_address(host, port, settings.classroom):
            _keep_until_stopped(kept)


def shared_settings(host: str, n: int, settings: Settings, folder: Path) -> dict[str, str]:
    """Return the variables of the environment by which n processes of the app act as one."""
    proxies = ",".join((*settings.trusted_proxies, host_to_call(host)))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // n))
    return {
        f"{PREFIX}SHARED": settings.shared or str(folder / "shared"),
        f"{PREFIX}TRUSTED_PROXIES": proxies,
        "OMP_NUM_THREADS": threads,
    }


def site_of(
    host: str, port: int, ports: Iterable[int], settings: Settings, folder: Path
) -> dict[str, str]:
    """Return the variables that the Caddyfile asks for, and a place for Caddy's own files."""
    called = bracketed(host_to_call(host))
    return {
        "SITE_HOST": host,
        "SITE_PORT": str(port),
        "SITE_APPS": " ".join(["to", *(f"{called}:{one}" for one in ports)]),
        "SITE_PROXIES": " ".join(settings.trusted_proxies),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
    }


def _keep_until_stopped(kept: list[Kept]) -> None:
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, signal.default_int_handler)
    try:
        while True:
            for one in kept:
                one.keep()
            time.sleep(_LOOK)
    except KeyboardInterrupt:
        return
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C would leave some of them
        _stop([one.running for one in kept if one.running is not None])


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for one in running:
        one.terminate()
    end = time.monotonic() + _STOPPING
    for one in running:
        try:
            one.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
