"""The server's gate: its own names and pages pass, nobody else."""

import socket
import tomllib
from urllib.parse import parse_qsl

import pytest
from streamlit import config

from mha_viz.ui.pages import redirection
from mha_viz.ui.server.gate import FormerPages, refusal
from mha_viz.ui.state.links import from_params, to_params
from tests.ui.serving import ROOT, serving, status
from tests.waiting import run_apart

pytestmark = pytest.mark.slow


@pytest.fixture
def set_option():
    """`set_option(key, value)` for one test."""
    before = {}

    def set_option(key, value):
        before.setdefault(key, config.get_option(key))
        config.set_option(key, value)

    yield set_option
    for key, value in before.items():
        config.set_option(key, value)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server's port, its folder, and a proxy of its environment that nobody may ask."""
    folder = tmp_path_factory.mktemp("gate")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0.2)
        at = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        env = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), at)
        with serving(folder, **env) as port:
            yield port, folder, proxy


def test_page_of_another_site_is_refused_without_asking_the_network(server):
    port, folder, proxy = server
    own, foreign = f"127.0.0.1:{port}", "https://evil.example"
    assert status(port, own, foreign, websocket=True) == 403
    assert status(port, own, "null", websocket=True) == 403
    assert status(port, own, foreign, path="/_stcore/health") == 403
    # its own page, and a program that is no browser
    assert status(port, own, f"http://{own}", websocket=True) == 101
    assert status(port, own, websocket=True) == 101
    assert status(port, own, f"http://{own}") == 200
    with pytest.raises(TimeoutError):
        proxy.accept()
    asked = (folder / "asked").read_text() if (folder / "asked").exists() else ""
    assert [line for line in asked.splitlines() if "127.0.0.1" not in line] == []


def test_host_that_is_no_name_of_the_server_is_refused(server):
    port, folder, _ = server
    for name in ("127.0.0.1", "localhost", "LOCALHOST.", "[::1]"):
        assert status(port, f"{name}:{port}") == 200
        assert status(port, f"{name}:{port}", websocket=True) == 101
    for name in (
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "192.0.2.7",
        "localhost@evil.example",
        "evil.example:99999999",
    ):
        assert status(port, name, websocket=True) == status(port, name) == 403, name
    assert "Traceback" not in (folder / "app.log").read_text()


def test_names_given_at_the_start_are_the_servers_own(tmp_path):
    env = {
        "STREAMLIT_SERVER_ALLOWED_HOSTS": "127.0.0.1 *.school.example",
        "STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": "https://lessons.example",
    }
    with serving(tmp_path, **env) as port:
        assert status(port, "heads.school.example", websocket=True) == 101
        assert status(port, "127.0.0.1", "https://lessons.example", websocket=True) == 101
        assert status(port, "127.0.0.1", "https://others.example", websocket=True) == 403
        assert status(port, "school.example.evil.example") == 403


@pytest.mark.parametrize("address", ["::", "lab.example"])
def test_listening_beyond_this_machine_it_goes_by_addresses_and_its_own_name(
    set_option, monkeypatch, address
):
    set_option("server.address", address)
    monkeypatch.setattr(socket, "gethostname", lambda: "Lectern.uni.example")
    ours = [
        "localhost:8501",
        "192.168.7.1:8501",
        "[fe80::1]:8501",
        "lectern",
        "lectern.local",
        "LECTERN.uni.example:80",
    ]
    ours += [address] * (address == "lab.example")
    assert {host: refusal([host], [f"http://{host}"]) for host in ours} == dict.fromkeys(ours, "")
    for host in ("evil.example", "uni.example", "lectern.evil.example", "1.2.3.4.evil.example"):
        assert refusal([host], [])


@pytest.mark.parametrize(
    ("hosts", "origins"),
    [
        ([], []),
        (["localhost", "evil.example"], []),
        (["localhost"], ["http://localhost", "http://evil.example"]),
        (["localhost:1"], ["http://localhost:2"]),
        (["localhost"], ["http://localhost.evil.example"]),
        (["localhost"], ["file://"]),
        ([""], []),
        (["[::1"], []),
        (["user@localhost"], []),
    ],
)
def test_what_is_no_host_or_not_its_own_page(set_option, hosts, origins):
    set_option("server.address", "127.0.0.1")
    assert refusal(hosts, origins)


def test_streamlit_tells_no_errors_and_writes_no_csv_that_lets_formulas_through():
    options = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert options["client"]["showErrorDetails"] == "none"
    assert options["client"]["disableDataExport"] is True


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/heads", "./?text=a%20b"),
        ("/class/explore/", "../?text=a%20b"),
        ("/class/corpus/", "../many_texts?text=a%20b"),
        ("/compare", None),
        ("/explore/app.js", None),
    ],
)
def test_former_page_leads_to_the_present_one_with_its_query(path, there):
    passed, answers = [], []

    async def app(scope, receive, send):
        passed.append(scope["path"])

    async def send(message):
        answers.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"text=a%20b"}
    run_apart(FormerPages(app)(scope, None, send))
    assert passed == ([] if there else [path])
    assert not there or (b"location", there.encode()) in answers[0]["headers"]


@pytest.mark.parametrize(
    ("query", "tab", "shown"),
    [
        ("corpus_model_b=tiny-gpt2&gold=1", "change", {"change": "studies"}),
        ("from_word=because&kind=relation", "find", {"find": "pairs"}),
        ("any_head=1", "find", {"find": "pairs"}),
        ("over=induction", "change", {"change": "training"}),
        ("gold=1&kind=local", "find", {"find": "scores"}),
        ("question=trees&metric=entropy", "grammar", {}),
        ("kind=relation&arc=det.to_head", "heads", {"picture": "map"}),
        ("layer=1&head=2", "heads", {"picture": "scatter"}),
        ("tab=one&from_word=a", "one", {}),
    ],
)
def test_link_of_corpus_opens_the_tab_that_has_what_it_chose(query, tab, shown):
    page, _, present = redirection("corpus", query).partition("?")
    view, problems = from_params(dict(parse_qsl(present)))
    assert page == "many_texts" and not problems and view.tab == tab
    assert {name: getattr(view, name) for name in shown} == shown
    for name, value in parse_qsl(query):
        assert to_params(view).get(name, value) == value
