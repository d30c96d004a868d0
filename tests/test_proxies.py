"""The examples of proxies, as they stand in the folder, in front of the real app."""

import base64
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.ui.serving import served
from tests.waiting import wait_for

FOLDER = Path(__file__).parents[1] / "hosting" / "proxy"
NAME = "heads.example.org"
USER, PASSWORD = "class", "a password for the class"
TRUSTING = ssl.create_default_context()
TRUSTING.check_hostname, TRUSTING.verify_mode = False, ssl.CERT_NONE  # the certificate is our own
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def certificate(folder: Path) -> tuple[Path, Path]:
    chain, key = folder / "fullchain.pem", folder / "privkey.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj".split()
    command += [f"/CN={NAME}", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True)
    return chain, key


def nginx(folder: Path, app: int, port: int) -> list[str]:
    """The example with this test's ports and files in place of those of a real server."""
    chain, key = certificate(folder)
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", PASSWORD], check=True, capture_output=True, text=True
    ).stdout.strip()
    (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
    text = (FOLDER / "nginx.conf").read_text()
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80", f"listen 127.0.0.1:{free_port()}"),
        ("/etc/letsencrypt/live/heads.example.org/fullchain.pem", str(chain)),
        ("/etc/letsencrypt/live/heads.example.org/privkey.pem", str(key)),
        ("/etc/nginx/mha_viz.htpasswd", str(folder / "htpasswd")),
        ("127.0.0.1:8501", f"127.0.0.1:{app}"),
    ):
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return nginx_command(folder, text)


def nginx_command(folder: Path, text: str) -> list[str]:
    """Return the command of an nginx with these servers, all of whose files lie in a folder."""
    config = folder / "whole.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"{user} pid {folder}/pid; daemon off; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}\n{text}\n}}\n"
    )
    return ["nginx", "-c", str(config), "-p", str(folder)]


def caddy(folder: Path, app: int, port: int) -> list[str]:
    """The example as it is: its name, password and app come from the environment."""
    hashed = subprocess.run(
        ["caddy", "hash-password", "--plaintext", PASSWORD],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    chain, key = certificate(folder)
    text = (FOLDER / "Caddyfile").read_text()
    # Nobody hands out a certificate for a test; ports below 1024 are root's.
    text = text.replace("\tencode gzip", f"\ttls {chain} {key}\n\tencode gzip")
    text = text.replace("\tadmin off", "\tadmin off\n\tauto_https disable_redirects")
    (folder / "Caddyfile").write_text(text)
    os.environ |= {
        "SITE_NAME": f"https://{NAME}:{port}",
        "SITE_PASSWORD_HASH": hashed,
        "SITE_APP": f"127.0.0.1:{app}",
    }
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Callable[[str], str]]]:
    with served(
        tmp_path_factory.mktemp("app"),
        STREAMLIT_SERVER_ALLOWED_HOSTS=f"{NAME} 127.0.0.1",
        MHA_VIZ_PUBLIC="1",
        MHA_VIZ_TRUSTED_PROXIES="127.0.0.1",
    ) as started:
        yield started


@pytest.fixture(scope="module")
def app(server: tuple[int, Callable[[str], str]]) -> int:
    return server[0]


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, app: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """The port of a proxy in front of the app."""
    make: Callable[[Path, int, int], list[str]] = request.param
    if not (shutil.which(make.__name__) and shutil.which("openssl")):
        # The app needs no proxy, so `make test` asks for none; .ci/run installs both.
        pytest.skip(f"no {make.__name__} on PATH")
    for name in ("SITE_NAME", "SITE_PASSWORD_HASH", "SITE_APP"):
        monkeypatch.setenv(name, "")
    port = free_port()
    command = make(tmp_path, app, port)
    log = tmp_path / "proxy.log"
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with log.open("w") as output:
        running = subprocess.Popen(
            command, env=os.environ | home, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: running.poll() is not None or listens(port), log.read_text)
        assert running.poll() is None, log.read_text()
        yield port
    finally:
        running.terminate()
        running.wait(30)


def ask(
    port: int, path: str = "/", password: str = PASSWORD, method: str = "GET", body: bytes = b""
):
    """Status, headers and text, under the server's own name."""
    secret = base64.b64encode(f"{USER}:{password}".encode()).decode()
    headers = {"Host": f"{NAME}:{port}", "Authorization": f"Basic {secret}"}
    connection = HTTPSConnection(NAME, port, timeout=300, context=TRUSTING)
    # The name is ours by this line alone: nobody else is asked for it.
    connection.sock = TRUSTING.wrap_socket(
        socket.create_connection(("127.0.0.1", port), 60), server_hostname=NAME
    )
    try:
        connection.request(method, path, body or None, headers)
        found = connection.getresponse()
        named = {name.lower(): value for name, value in found.getheaders()}
        return found.status, named, found.read().decode(errors="replace")
    finally:
        connection.close()


def test_a_page_comes_through_tls_with_the_password_and_not_without(proxy: int) -> None:
    status, headers, page = ask(proxy)
    assert status == 200 and "<title>Streamlit</title>" in page
    assert "max-age=31536000" in headers["strict-transport-security"]
    assert "default-src 'self'" in headers["content-security-policy"]
    script = re.search(r'src="\.(/static/js/index[^"]+)"', page)
    assert script and ask(proxy, script.group(1))[0] == 200
    assert ask(proxy, password="a wrong one")[0] == 401
    assert ask(proxy, "/healthz")[2] == "ok\n" and ask(proxy, "/metrics")[0] == 404


def opened(proxy: int, origin: str, password: str = PASSWORD, **headers: str) -> ClientConnection:
    """The websocket of a page."""
    secret = base64.b64encode(f"{USER}:{password}".encode()).decode()
    protocols: list = ["streamlit"]
    return connect(
        f"wss://{NAME}:{proxy}/_stcore/stream",
        sock=socket.create_connection(("127.0.0.1", proxy)),
        ssl=TRUSTING,
        origin=origin,  # type: ignore[arg-type]
        subprotocols=protocols,
        additional_headers={"Authorization": f"Basic {secret}", **headers},
        open_timeout=300,
    )


def test_a_websocket_opens_for_the_own_page_only_and_runs_it(proxy: int) -> None:
    own = f"https://{NAME}:{proxy}"
    with opened(proxy, own) as page:
        page.send(b"\x5a\x00")  # an empty message: run the script
        assert page.recv(120)
    for origin, password, expected in (("https://evil.example", PASSWORD, 403), (own, "x", 401)):
        with pytest.raises(InvalidStatus) as refused:
            opened(proxy, origin, password)
        assert refused.value.response.status_code == expected


def test_an_address_that_a_visitor_makes_up_is_not_handed_on(proxy: int, server) -> None:
    made_up = {"X-Forwarded-For": "8.8.8.8", "Forwarded": "for=9.9.9.9"}
    with opened(proxy, f"https://{NAME}:{proxy}", **made_up) as page:
        page.send(b"\x5a\x00")
        assert page.recv(120)
        told = (
            "from streamlit import runtime\n"
            "every = runtime.get_instance()._session_mgr.list_active_sessions()\n"
            "answer = {one.client.client_context.remote_ip for one in every}"
        )
        assert server[1](told) == "{'127.0.0.1'}"


def test_what_is_too_large_is_refused(proxy: int) -> None:
    path = "/_stcore/upload_file/nobody/nothing"
    try:
        status = ask(proxy, path, method="PUT", body=bytes(7_000_000))[0]
    except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        return  # it has hung up in the middle: refused as well
    # nginx looks at the length that is announced; Caddy counts, and by then the app has refused it.
    assert status in (413, 400)
