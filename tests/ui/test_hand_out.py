"""A link that is handed out can be opened by those who get it, or says why not."""

import socket

import pytest

from mha_viz.errors import ArgumentError
from mha_viz.ui.state.own_address import in_network, seen_by_others
from mha_viz.ui.widgets.exports.share_link import qr_svg

HERE = "http://localhost:8501/base/learn"


@pytest.mark.parametrize("listens", ["127.0.0.1", "localhost", "::1"])
def test_what_only_this_machine_can_open_is_said(listens):
    found = seen_by_others(HERE, listens, lambda: "10.0.0.7")
    assert found.url == HERE and "0.0.0.0" in found.problem


@pytest.mark.parametrize("listens", ["", "0.0.0.0", "::"])
@pytest.mark.parametrize("opened", ["localhost", "127.0.0.1", "[::1]"])
def test_the_machines_own_address_stands_for_the_loopback(listens, opened):
    found = seen_by_others(f"http://{opened}:8501/base/learn?a=b", listens, lambda: "10.0.0.7")
    assert found == ("http://10.0.0.7:8501/base/learn", "")


def test_the_one_address_that_is_listened_on_is_handed_out():
    assert (
        seen_by_others(HERE, "10.1.1.1", lambda: "10.0.0.7").url
        == "http://10.1.1.1:8501/base/learn"
    )
    assert seen_by_others(HERE, "fd00::7", lambda: None).url == "http://[fd00::7]:8501/base/learn"


@pytest.mark.parametrize("url", ["https://heads.school.example/learn", "http://10.0.0.9:80/learn"])
def test_an_address_that_others_have_too_stays(url):
    assert seen_by_others(url, "127.0.0.1", lambda: None) == (url, "")


@pytest.mark.parametrize(
    ("way", "own"), [("10.0.0.7", "10.0.0.7"), ("127.0.0.1", None), ("0.0.0.0", None), ("", None)]
)
def test_the_own_address_is_that_of_the_way_out(way, own, monkeypatch):
    class Socket(socket.socket):
        def connect(self, address):
            assert self.type == socket.SOCK_DGRAM  # with which nothing is sent
            if not way:
                raise OSError("Network is unreachable")

        def getsockname(self):
            return way, 4711

    monkeypatch.setattr(socket, "socket", Socket)
    assert in_network() == own


def test_a_link_too_long_for_a_code_is_refused():
    with pytest.raises(ArgumentError):
        qr_svg("http://10.0.0.7/?" + "x" * 3000)
