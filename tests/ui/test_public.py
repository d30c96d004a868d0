"""A server that is open to strangers: which models, texts, files and classes it gives them."""

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.checkpoints import catalog
from mha_viz.errors import LimitError, SettingsError
from mha_viz.ui.operating import addresses, refusals
from mha_viz.ui.operating.settings import Settings, read
from mha_viz.ui.run import memory
from mha_viz.ui.state import allowed
from mha_viz.ui.widgets.controls.model_menus import OTHER
from tests.ui.heads_app import heads_page
from tests.ui.test_fetching import chosen, page

NAMED = "google-bert/bert-base-uncased"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def models_by_name():
    """Forget the models that a server loaded under other settings."""
    memory._model.cache_clear()
    yield
    memory._model.cache_clear()


def offered(app: AppTest) -> list[str]:
    return app.selectbox(key="ask_model").options


def test_the_menu_offers_shipped_and_named_models_and_nothing_to_type(operated):
    assert OTHER in offered(page())
    operated(public=1, models=NAMED)
    shown = offered(page())
    assert [name.partition(" ·")[0] for name in shown] == [
        "tiny-bert",
        "tiny-gpt2",
        "tiny-llama",
        "bert-base-uncased",
    ]
    operated(public=1, models="")
    assert len(offered(page())) == 3


def test_a_model_of_the_cache_that_nobody_named_is_not_there(operated, monkeypatch):
    shipped = catalog.list_models()[0]
    cached = catalog.ModelInfo("a/b", "cached", shipped.path, "bert", 1, 1, 10)
    monkeypatch.setattr(allowed, "list_models", lambda: [shipped, cached])
    assert allowed.models() == [shipped, cached]
    operated(public=1)
    assert allowed.models() == [shipped]
    operated(public=1, models="a/b")
    assert allowed.models() == [shipped, cached]


@pytest.mark.parametrize("name", [NAMED, "models/tiny-bert", "tests/ui"])
def test_a_link_that_names_another_model_opens_on_a_shipped_one_and_says_so(operated, name):
    operated(public=1)
    app = page(model=name)
    assert chosen(app) == "tiny-bert"
    assert len(app.warning) == 1
    assert not app.button  # nothing offers to fetch it


def test_a_folder_that_somebody_typed_before_is_not_opened(operated, models, monkeypatch):
    operated(public=1)
    app = page(model=models["one"])
    assert chosen(app) == "tiny-bert"
    with pytest.raises(LimitError):
        memory.model(models["one"], "cpu", "float32")


def test_a_browser_that_asks_for_the_box_of_names_gets_none(operated):
    operated(public=1)
    app = page()
    app.session_state.session.names_model = True
    app.run()
    assert not app.text_input


def test_a_long_text_is_cut_to_the_tokens_that_are_allowed_and_the_page_says_so(operated):
    operated(public=1, max_tokens=16)
    app = heads_page(model="tiny-gpt2", text="one two three " * 30)
    assert not app.exception and not app.error
    said = " ".join(warning.value for warning in app.warning)
    assert "16" in said and "cut" in said


def test_more_characters_than_allowed_are_refused_and_stay_in_the_box(operated):
    operated(public=1, max_characters=100)
    before = refusals.counted().get("text", 0)
    text = "word " * 30
    app = heads_page(text=text)
    (error,) = [error.value for error in app.error]
    assert "100" in error and "150" in error
    assert app.text_area(key="ask_text").value == text
    assert refusals.counted()["text"] == before + 1


def test_a_model_of_more_parameters_than_allowed_is_refused(operated):
    operated(public=1, max_parameters=1_000)
    with pytest.raises(LimitError, match="1,000"):
        memory.model("tiny-bert", "cpu", "float32")
    with pytest.raises(LimitError, match="tiny-bert"):
        allowed.check_size(mv.load("tiny-bert"))


def test_check_upload_of_a_larger_file_is_refused(operated):
    operated(public=1, max_upload_mb=1)
    allowed.check_upload(1_000_000)
    with pytest.raises(LimitError, match="1 MB"):
        allowed.check_upload(1_000_001)


def _lesson() -> None:
    from mha_viz.learn.frame import lesson

    lesson.draw()


def test_strangers_open_no_class(operated):
    operated(public=1)
    app = AppTest.from_function(_lesson, default_timeout=300).run()
    assert not app.exception
    assert "class-open" not in [button.key for button in app.button]


def test_nobody_is_shown_what_others_gave_behind_a_proxy_that_gives_its_own_name(operated):
    operated(public=1)
    from mha_viz.ui.state import own_address

    assert own_address.only_here() is False
    assert own_address.reached().problem == ""


# The second is named by an address in it.
PROXIES = ("127.0.0.1", "10.9.8.7/8", "2001:db8:1::/48")


@pytest.fixture
def trusting(monkeypatch):
    found = Settings(public=True, trusted_proxies=PROXIES)
    monkeypatch.setattr(addresses, "settings", lambda: found)


@pytest.mark.parametrize(
    ("peer", "x_forwarded_for", "forwarded", "expected"),
    [
        ("127.0.0.1", [], [], "127.0.0.1"),
        ("8.8.8.8", ["1.1.1.1"], ["for=1.1.1.1"], "8.8.8.8"),  # no proxy of ours
        ("127.0.0.1", ["1.1.1.1"], [], "1.1.1.1"),
        ("127.0.0.1", ["6.6.6.6, 1.1.1.1"], [], "1.1.1.1"),  # the visitor sent the first one
        ("127.0.0.1", ["6.6.6.6", "1.1.1.1, 10.0.0.9"], [], "1.1.1.1"),
        ("::ffff:127.0.0.1", ["x, 1.1.1.1:443"], [], "1.1.1.1"),
        ("10.1.2.3", [], ['for=6.6.6.6, For="[2001:4860::8]:80";proto=https'], "2001:4860::8"),
        ("10.1.2.3", ["1.1.1.1"], ["for=1.1.1.1;host=a"], "1.1.1.1"),
        ("11.1.2.3", ["1.1.1.1"], [], "11.1.2.3"),  # of another network
        ("2001:db8:1::7", ["10.0.0.1, 10.0.0.2"], [], "10.0.0.2"),
    ],
)
def test_client_is_the_last_address_that_no_named_proxy_has(
    trusting, peer, x_forwarded_for, forwarded, expected
):
    assert addresses.client(peer, x_forwarded_for, forwarded) == expected


@pytest.mark.parametrize(
    ("x_forwarded_for", "forwarded"),
    [(["unknown"], []), ([], ["for=_hidden"]), (["1.1.1.1"], ["for=6.6.6.6"])],
)
def test_client_of_headers_that_name_none_or_two_is_refused(trusting, x_forwarded_for, forwarded):
    with pytest.raises(ValueError):
        addresses.client("127.0.0.1", x_forwarded_for, forwarded)


def test_client_without_named_proxies_is_the_peer():
    assert addresses.client("127.0.0.1", ["1.1.1.1"], ["for=1.1.1.1"]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((near, None) for near in ("", "127.0.0.1", "::1", "10.0.0.9", "fd00::1", "192.168.1.7")),
        ("8.8.8.8", "8.8.8.8"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("2001:4860:1:2:3:4:5:6", "2001:4860:1:2::/64"),
    ],
)
def test_counted_is_an_address_or_a_block_and_nobody_where_a_proxy_may_stand(address, expected):
    assert addresses.counted(address) == expected


def test_counted_with_named_proxies_is_every_other_address(trusting):
    assert addresses.counted("192.168.1.7") == "192.168.1.7"
    assert addresses.counted("10.0.0.9") is None  # it has named nobody


def test_trusted_proxies_are_addresses_and_networks():
    found = read({"MHA_VIZ_TRUSTED_PROXIES": ", ".join(PROXIES)}).settings
    assert found.trusted_proxies == PROXIES
    for wrong in ("proxy.example", "10.0.0.0/99", "0.0.0.0/0", "::/0", "0.0.0.0/1", "2000::/3"):
        with pytest.raises(SettingsError, match="addresses or networks"):
            read({"MHA_VIZ_TRUSTED_PROXIES": wrong})
