"""The place where the web app is served: whether it is free, and when the app answers."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import typer

from mha_viz.cli.streams import redirect_to_null
from mha_viz.errors import ArgumentError, MhaVizError

MAX_PORT = 65_535
_WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses, and one of them to call
_PORTS_TRIED = 100  # ports after one that is taken
_POLL_SECONDS = 0.1  # seconds between two calls


def check_free(host: str, port: int) -> None:
    """Refuse an address that the app could not be served at.

    Raises:
        ArgumentError: the port is taken or not ours to take, or the host is not this machine.
    """
    if not host:  # a server takes it for all addresses
        raise ArgumentError(
            "Expected an address to listen on, such as 127.0.0.1, got an empty one."
        )
    if not 1 <= port <= MAX_PORT:
        raise ArgumentError(f"A port lies in 1..{MAX_PORT}, got {port}.")
    try:
        _bind_briefly(host, port)
    except (OSError, TypeError, ValueError) as error:  # the latter two: no host has such a name
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ArgumentError(_port_taken(host, port)) from error
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise ArgumentError(
            f"The app cannot be served at port {port} of {host}: {reason}. Choose another place "
            "with --port or --host."
        ) from error


def _bind_briefly(host: str, port: int) -> None:
    """Listen there for a moment, as the server does for longer."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host, port))
        trial.listen()


def _port_taken(host: str, port: int) -> str:
    """Suggest a place where a port is taken, perhaps by another one of these servers."""
    at = "" if host == "127.0.0.1" else f" --host {host}"
    for other in free_ports(host, port):
        return f"Port {port} is taken; {other} is free: mha-viz app{at} --port {other}"
    return f"Port {port} is taken, as are those after it. Choose another place with --port."


def free_ports(host: str, after: int) -> Iterator[int]:
    """Yield the free ones among the ports that follow one."""
    for port in range(after + 1, min(after + _PORTS_TRIED, MAX_PORT) + 1):
        with suppress(OSError):
            _bind_briefly(host, port)
            yield port


def host_to_call(host: str) -> str:
    """Return an address at which a server is called that listens on `host`."""
    return _WILDCARD_HOSTS.get(host, host)


def bracketed(host: str) -> str:
    """Return an address as it stands before a port."""
    return f"[{host}]" if ":" in host else host


@contextmanager
def announce_address(host: str, port: int, classroom: bool = False) -> Iterator[None]:
    """Print the address of the app as soon as it answers, while the block starts and serves it.

    Of a server that keeps one class, also print its code and the link of its teacher.
    """
    ended = Event()
    args = host, port, classroom, ended
    Thread(target=_announce_when_serving, args=args, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _announce_when_serving(host: str, port: int, classroom: bool, ended: Event) -> None:
    while not ended.wait(_POLL_SECONDS):
        if not _is_serving(host_to_call(host), port):
            continue
        try:
            typer.echo(f"mha_viz opens at http://{bracketed(host)}:{port} (Ctrl-C stops it)")
            if classroom:
                typer.echo(class_lines(host, port))
        except MhaVizError as error:
            typer.echo(f"error: {error}", err=True)
        except OSError:  # nobody reads it: the server serves all the same, and stops in silence
            redirect_to_null()
        return


def class_lines(host: str, port: int) -> str:
    """Return the addresses of a class: for pupils in the network, and for its teacher."""
    from mha_viz.ui.state import class_answers, own_address

    code, leader = class_answers.first_class()
    local = f"http://{bracketed(host_to_call(host))}:{port}"
    address = own_address.seen_by_others(f"{local}/class", host, own_address.in_network)
    reach = address.problem or "Everybody in this network can open it: there is no password."
    return (
        f"{reach}\n"
        f"  Pupils:  {address.url}  and type the code  {code}\n"
        f"  Teacher: {local}/teach?lead={leader}  (keep this link to yourself)"
    )


def _is_serving(host: str, port: int) -> bool:
    """Return whether a request is answered: a place is taken some time before it is served."""
    from http.client import HTTPConnection, HTTPException  # late: no other command needs it

    connection = HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
