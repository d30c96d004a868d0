"""A folder that programs take for their whole file system: what a container is, without an engine.

This machine's own /usr and Python stand in for the image that a Dockerfile begins with. Everything
else is the folder's own. Mounts lie in a namespace of the program's, and go with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mha_viz.errors import ArgumentError

# Of the image `python`, which a Dockerfile counts on without saying so.
BASE_VARIABLES = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
}
_SYSTEM = ("bin", "lib", "lib32", "lib64", "libexec", "sbin", "share")  # below /usr
_DEVICES = ("full", "null", "random", "urandom", "zero")
_OWN = ("dev/shm", "home", "opt", "proc", "root", "run", "tmp", "usr/local", "var/tmp")
_MEMORY = "mode=1777,size=512m,noexec,nosuid,nodev"  # as an engine mounts /tmp
_LEFT_OUT = ("site-packages", "test", "tkinter", "idlelib", "config-*", "__pycache__")


def check_possible() -> None:
    """Refuse where a sandbox cannot be made.

    Raises:
        ArgumentError: this is not Linux, the user is not root, or a program is missing.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ArgumentError(
            "Expected root on Linux, for mounts and another user: run it with sudo, in a virtual "
            "machine that is thrown away."
        )
    for program in ("unshare", "mount", "chroot", "setpriv"):
        if shutil.which(program) is None:
            raise ArgumentError(f"Expected the program {program}, found none: install util-linux.")


class Sandbox:
    """A file system below `root`; `shown` are folders of this machine that it sees, too."""

    def __init__(self, root: Path, shown: Sequence[Path] = ()) -> None:
        self.root = root
        self.shown = tuple(shown)
        self._lay()

    def _lay(self) -> None:
        for name in (*_OWN, *(f"usr/{name}" for name in _SYSTEM)):
            (self.root / name).mkdir(parents=True)
        for name in ("tmp", "var/tmp"):
            (self.root / name).chmod(0o1777)
        for name in ("bin", "lib", "lib32", "lib64", "sbin"):
            (self.root / name).symlink_to(f"usr/{name}")
        for name in _DEVICES:
            (self.root / "dev" / name).touch()
        for folder in self.shown:
            self.inside(str(folder)).mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", "/etc", self.root], check=True)
        self._forget_users()
        self._lay_python()

    def _forget_users(self) -> None:
        """Leave those users and groups that an image has, too: the system's own."""
        for name in ("passwd", "group"):
            file = self.root / "etc" / name
            lines = file.read_text("utf-8").splitlines(keepends=True)
            file.write_text("".join(line for line in lines if int(line.split(":")[2]) < 1000))

    def _lay_python(self) -> None:
        """The interpreter that runs this, without its packages, where the image has its own."""
        here, there = Path(sys.base_prefix), self.root / "usr/local"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (there / "bin").mkdir()
        shutil.copy2(here / "bin" / version, there / "bin" / version)
        for name in ("python", "python3"):
            (there / "bin" / name).symlink_to(version)
        leave_out = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(here / "lib" / version, there / "lib" / version, ignore=leave_out)
        for library in (here / "lib").glob("libpython*.so*"):
            shutil.copy2(library, there / "lib", follow_symlinks=False)
        for command in ("ldconfig", "python -m ensurepip --default-pip"):
            started = self.start(shlex.split(command), BASE_VARIABLES, stdout=subprocess.DEVNULL)
            if started.wait() != 0:
                raise ArgumentError(f"This machine's Python cannot stand in: {command} failed.")

    def inside(self, path: str) -> Path:
        """Where a path of the sandbox lies on this machine."""
        return self.root / path.lstrip("/")

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        *,
        folder: str = "/",
        user: str = "0:0",
        read_only: bool = False,
        stdout: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program in there, as process 1 of its own; it ends when what we return ends.

        Args:
            command: the program and its arguments.
            variables: all of its environment.
            folder: where it starts.
            user: numbers of user and group. Any but 0 gets no capability, and no way to one.
            read_only: whether only /tmp and /dev/shm can be written to, both of them new.
            stdout: where its output goes, as subprocess has it; errors, too.
        """
        number, _, group = user.partition(":")
        rights = [f"--reuid={number}", f"--regid={group or number}", "--clear-groups"]
        if int(number) != 0:
            rights += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        enter = ["chroot", str(self.root), "/bin/sh", "-c", 'cd "$0" && exec "$@"', folder]
        script = f'{self._mounts(read_only)}\nexec {shlex.join(enter)} setpriv "$@"'
        namespaces = ["--mount", "--pid", "--fork", "--kill-child"]
        return subprocess.Popen(
            ["/usr/bin/unshare", *namespaces, "/bin/sh", "-c", script, "sh", *rights, *command],
            env=dict(variables),
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout is not None else None,
        )

    def _mounts(self, read_only: bool) -> str:
        """The shell's commands that make the sandbox, in a namespace of its own."""

        def bind(source: Path, target: Path) -> list[str]:
            pair = shlex.join([str(source), str(target)])
            place = shlex.quote(str(target))
            return [f"mount --bind {pair}", f"mount -o remount,bind,ro {place}"]

        lines = ["set -eu", "PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin", "mount --make-rprivate /"]
        if read_only:
            lines += bind(self.root, self.root)
        for name in _SYSTEM:
            if Path("/usr", name).is_dir():
                lines += bind(Path("/usr", name), self.root / "usr" / name)
        for folder in self.shown:
            lines += bind(folder, self.inside(str(folder)))
        for name in _DEVICES:
            lines += bind(Path("/dev", name), self.root / "dev" / name)[:1]
        if read_only:
            for name in ("tmp", "dev/shm"):
                place = shlex.quote(str(self.root / name))
                lines.append(f"mount -t tmpfs -o {_MEMORY} tmpfs {place}")
        lines.append(f"mount -t proc proc {shlex.quote(str(self.root / 'proc'))}")
        return "\n".join(lines)
