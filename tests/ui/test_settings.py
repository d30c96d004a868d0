"""Settings of a server: read from a file and the environment, and refused where they make none."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mha_viz.errors import SettingsError
from mha_viz.ui.operating.settings import FILE, Settings, read


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> dict[str, str]:
        path = tmp_path / "server.toml"
        path.write_text(text, encoding="utf-8")
        return {FILE: str(path)}

    return write


def test_a_server_for_one_person_limits_nothing():
    assert read({"HOME": "/root"}).settings == Settings()
    assert Settings().max_tokens is None


def test_a_public_server_has_a_limit_for_everything():
    found = read({"MHA_VIZ_PUBLIC": "1"})
    assert found.settings.public
    limits = vars(found.settings).keys() - {"public", "models", "metrics_token"}
    assert all(getattr(found.settings, name) is not None for name in limits)
    assert found.origins["public"] == "MHA_VIZ_PUBLIC"
    assert found.origins["max_tokens"] == "default of public servers"


def test_the_environment_goes_before_the_file_and_the_file_before_the_defaults(written):
    environment = written("[mha_viz]\npublic = true\nmax_tokens = 64\nmax_sessions = 7\n")
    found = read({**environment, "MHA_VIZ_MAX_TOKENS": "32", "MHA_VIZ_HEAVY_SECONDS": "2.5"})
    assert (found.settings.max_tokens, found.settings.max_sessions) == (32, 7)
    assert found.settings.heavy_seconds == 2.5
    assert found.origins["max_tokens"] == "MHA_VIZ_MAX_TOKENS"
    assert found.origins["max_sessions"] == "server.toml"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("MHA_VIZ_PUBLIC", "maybe", "true or false"),
        ("MHA_VIZ_MAX_TOKENS", "many", "a whole number from 16 to 1,000,000"),
        ("MHA_VIZ_HEAVY_SECONDS", "nan", "a number from 1 to 86,400"),
        ("MHA_VIZ_MODELS", "../x/y", "a list of models on the Hub"),
        ("MHA_VIZ_METRICS_TOKEN", "short", "a password of at least 16 characters"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected_and_what_came(variable, value, expected):
    with pytest.raises(SettingsError) as error:
        read({variable: value})
    assert variable in str(error.value) and expected in str(error.value)
    secret = variable == "MHA_VIZ_METRICS_TOKEN"
    assert (value.rpartition(",")[2] in str(error.value)) != secret


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[mha_viz]\nmax_tokens = '64'\n", "max_tokens in server.toml: expected a whole number"),
        ("[mha_viz]\nmodels = 'a/b'\n", "models in server.toml: expected a list"),
        ("[mha_viz]\nmax_token = 64\n", "Is max_tokens meant?"),
        ("max_tokens = 64\n", "below a line [mha_viz]"),
        ("[mha_viz\n", "which is none"),
        ("#" * 70_000, "more than 65,536 bytes"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(written, text, expected):
    with pytest.raises(SettingsError) as error:
        read(written(text))
    assert expected in str(error.value)
    assert "\n" not in str(error.value).strip()


def test_a_misspelt_variable_is_no_setting():
    with pytest.raises(SettingsError, match=r"MHA_VIZ_MAX_TOKEN, .* Is max_tokens meant"):
        read({"MHA_VIZ_MAX_TOKEN": "5"})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"absent\.toml: No such file"):
        read({FILE: str(tmp_path / "absent.toml")})


PAGE = Path(__file__).parents[2] / "docs" / "hosting.md"


def test_the_table_of_settings_is_that_of_the_code():
    table = PAGE.read_text("utf-8").split("\n## ")[1]
    rows = {
        found[1]: (found[2], found[3])
        for found in re.finditer(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", table, re.M)
    }
    assert list(rows) == [choice.name for choice in fields(Settings)]
    for choice in fields(Settings):
        if "public" in (facts := choice.metadata):
            public, reach = rows[choice.name]
            assert public == f"{facts['public']:,.0f}"
            assert reach == f"{facts['low']:,} to {facts['high']:,}"
