"""Try the Dockerfile where there is no Docker: `make image-try`, as root on Linux.

Carries out its instructions in a folder, starts what it says as the user it says, with a read-only
file system and no rights, and visits the app with a Chromium. What is found is printed; the status
is 1 where something is not as it should be, and 2 where the Dockerfile cannot be carried out.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from hosting.image import Built, build
from hosting.sandbox import check_possible
from hosting.visit import see_all_heads, visitor, walk
from mha_viz.errors import ArgumentError

ROOT = Path(__file__).parents[1]
PATIENCE = 180  # seconds until the health check has to succeed
SETTLING = 60  # seconds at most that a server is given to come to rest
LAST_WORD = 10  # seconds that an engine waits between SIGTERM and SIGKILL
MB = 1_000_000
IDLE_MB, VISITED_MB = 700, 1_200  # what a small host allows


class Findings:
    """The findings, a line each, and whether all of them are as they should be."""

    def __init__(self) -> None:
        self.is_well = True

    def say(self, what: str, is_well: bool = True) -> None:
        """Print one finding."""
        self.is_well &= is_well
        print(f"{'ok  ' if is_well else 'FAIL'} {what}", flush=True)


def try_image(work: Path, given: dict[str, str], pages: bool) -> bool:
    """Build, start and visit; returns whether all is well."""
    findings = Findings()
    before = time.monotonic()
    image = build(ROOT, given, work)
    built = time.monotonic() - before
    findings.say(f"built in {built:.0f} s; {image.added_bytes() / MB:,.0f} MB beside the base")
    files = _fingerprints(image.sandbox.root)
    with _started(image) as (server, port, seconds):
        findings.say(f"healthy {seconds:.1f} s after the start")
        _check_rights(server, findings)
        _visit(server, f"http://localhost:{port}", pages, findings)
        _check_writing(server, findings)
        before = time.monotonic()
        server.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs([server], timeout=LAST_WORD)
        findings.say(f"SIGTERM ends it in {time.monotonic() - before:.1f} s", not left)
    changed = {path for path, _ in files ^ _fingerprints(image.sandbox.root)}
    findings.say(f"{len(changed)} files changed outside of /tmp {sorted(changed)[:5]}", not changed)
    return findings.is_well


@contextmanager
def _started(image: Built) -> Iterator[tuple[psutil.Process, int, float]]:
    """The running server, its port, and the seconds until its own health check succeeded."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = image.variables | {"PORT": str(port)}
    before = time.monotonic()
    outer = image.sandbox.start(
        image.command, variables, folder=image.folder, user=image.user, read_only=True
    )
    try:
        while not _is_healthy(image, variables):
            if outer.poll() is not None or time.monotonic() - before > PATIENCE:
                raise ArgumentError(
                    f"Expected a healthy server within {PATIENCE} s, got none: what it said stands "
                    "above."
                )
            time.sleep(0.2)
        seconds = time.monotonic() - before
        (server,) = psutil.Process(outer.pid).children()
        yield server, port, seconds
    finally:
        if outer.poll() is None:  # the server's own end is the end of all that it started
            for one in psutil.Process(outer.pid).children():
                one.kill()
            outer.wait()


def _is_healthy(image: Built, variables: dict[str, str]) -> bool:
    check = image.sandbox.start(
        image.health,
        variables,
        user=image.user,
        read_only=True,
        stdout=subprocess.DEVNULL,
    )
    return check.wait() == 0


def _check_rights(server: psutil.Process, findings: Findings) -> None:
    status = Path(f"/proc/{server.pid}/status").read_text("utf-8")
    said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    users = set(said["Uid"].split() + said["Gid"].split())
    findings.say(f"runs as user and group {', '.join(sorted(users))}", "0" not in users)
    rights = {name: said[name] for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")}
    expected = {"CapEff": 0, "CapPrm": 0, "CapBnd": 0, "NoNewPrivs": 1}
    are_none = {name: int(value, 16) for name, value in rights.items()} == expected
    findings.say("has no capability, and no way to one", are_none)


def _visit(server: psutil.Process, address: str, pages: bool, findings: Findings) -> None:
    idle = settled_bytes(server) / MB
    findings.say(f"{idle:,.0f} MB at rest, before anybody comes", idle < IDLE_MB)
    with visitor() as page:
        seconds = see_all_heads(page, address)
        findings.say(f"all heads {seconds:.1f} s after Enter")
        used = settled_bytes(server) / MB
        findings.say(f"{used:,.0f} MB after the first page", used < IDLE_MB)
        if pages:
            walk(page, address)
            used = settled_bytes(server) / MB
            findings.say(f"{used:,.0f} MB after all pages with each model", used < VISITED_MB)


def settled_bytes(server: psutil.Process) -> int:
    """The memory of a server and its children once it rests, for libraries load behind a page."""
    for _ in range(SETTLING // 3):
        if server.cpu_percent(3.0) < 5:
            break
    return sum(one.memory_info().rss for one in [server, *server.children(recursive=True)])


def _check_writing(server: psutil.Process, findings: Findings) -> None:
    inside = Path(f"/proc/{server.pid}/root")  # the file system as the server has it
    written = sorted(path.relative_to(inside).as_posix() for path in (inside / "tmp").rglob("*"))
    findings.say(f"wrote {len(written)} files to /tmp {written[:5]}")
    mounts = Path(f"/proc/{server.pid}/mounts").read_text("utf-8").splitlines()
    writable = {line.split()[1] for line in mounts if "rw" in line.split()[3].split(",")}
    allowed = {"/tmp", "/dev/shm", "/proc"} | {
        f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero")
    }
    findings.say(
        f"may write to {sorted(writable - allowed) or 'nothing but /tmp'}", writable <= allowed
    )
    used = packages_in_use(server)
    findings.say(f"uses of the system: {', '.join(used)}")


def packages_in_use(server: psutil.Process) -> list[str]:
    """The Debian packages that the server has libraries of: the image has to have them, too."""
    loaded = {Path(mapped.path) for mapped in server.memory_maps() if ".so" in mapped.path}
    own = ("/opt/", "/usr/local/")  # elsewhere is this machine's system
    names = {path.name for path in loaded if not any(part in str(path) for part in own)}
    patterns = [f"*/{name}" for name in sorted(names)]
    done = subprocess.run(["dpkg", "--search", *patterns], capture_output=True, text=True)
    return sorted({line.partition(":")[0] for line in done.stdout.splitlines()})


def _fingerprints(root: Path) -> set[tuple[str, str]]:
    """Every file below a folder with its size and the time of its last change."""
    found = set()
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            about = path.lstat()
            found.add((str(path.relative_to(root)), f"{about.st_size} {about.st_mtime_ns}"))
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--first-page", action="store_true", help="visit no other page")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder goes, and the server
    try:
        check_possible()
        with tempfile.TemporaryDirectory(prefix="mha-viz-image-") as work:
            arguments = dict(each.split("=", 1) for each in given.build_arg)
            return 0 if try_image(Path(work), arguments, not given.first_page) else 1
    except ArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
