"""Settings of a server, each with its range and its default on a public one.

They come from a TOML file and from the environment, which goes before it; every value is checked.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from mha_viz.checkpoints.hub_cache import is_hub_id
from mha_viz.errors import SettingsError

PREFIX = "MHA_VIZ_"
FILE = f"{PREFIX}CONFIG"
TABLE = "mha_viz"
_OTHERS = {FILE, f"{PREFIX}BENCH_CACHE"}  # of the environment, and no settings
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_ORIGIN = re.compile(r"https?://(\*\.)?[a-z0-9.-]+(:\d{1,5})?\Z", re.IGNORECASE)
_CLUSTER = re.compile(r"(auto|[A-Za-z0-9.-]+:\d{1,5})\Z")
_WIDEST = {4: 8, 6: 7}  # 10.0.0.0/8 and fc00::/7 are the widest networks that are private
_MIN_TOKEN = 16  # characters: what is shorter may be guessed
_MAX_BYTES = 2**16  # of a settings file


def _limit(about: str, public: int | float, low: int, high: int) -> Any:
    """Declare a limit that a server for one person does not have: None there.

    `about` is what it limits, for the table of settings; `public` the default of a public server.
    """
    facts = {"about": about, "public": public, "low": low, "high": high}
    return field(default=None, metadata=facts)


@dataclass(frozen=True)
class Settings:
    """Limits of a server; by default those of one person on a machine of their own.

    Of a limit, None says that only the library's own holds. The defaults of a public server are
    for a machine with two processors and 2 GB.
    """

    # strangers come: no folders, and no models but the named ones
    public: bool = field(default=False, metadata={"about": "a server for strangers"})
    # pupils come: public, but for one class whose code and teacher's link are made at the start
    classroom: bool = field(default=False, metadata={"about": "public, with one class"})
    # ids on the Hub that a public server offers beside the shipped
    models: tuple[str, ...] = field(default=(), metadata={"about": "models beside the shipped"})
    # who shows it may read /metrics; "" is nobody
    metrics_token: str = field(default="", metadata={"about": "the password of /metrics"})
    # origins whose pages may show the app in a frame
    embedded_in: tuple[str, ...] = field(default=(), metadata={"about": "pages that may frame it"})
    # where studies run instead of here: "auto" or HOST:PORT of a Ray cluster's head; "" is here
    cluster: str = field(default="", metadata={"about": "the Ray cluster of studies"})
    # a folder for studies, texts and classes that several processes keep together; "" is none
    shared: str = field(default="", metadata={"about": "the folder of several processes"})
    # addresses and networks of proxies whose headers name the visitor
    trusted_proxies: tuple[str, ...] = field(
        default=(), metadata={"about": "proxies that name the visitor"}
    )
    max_characters: int | None = _limit("characters of a text", 4_000, 100, 10_000_000)
    max_tokens: int | None = _limit("tokens of a text", 256, 16, 1_000_000)
    max_parameters: int | None = _limit("parameters of a model", 130_000_000, 1_000, 10**12)
    max_generated: int | None = _limit("tokens behind a text", 60, 1, 200)
    max_upload_mb: int | None = _limit("MB of one file", 1, 1, 100)
    max_uploads: int | None = _limit("files of one open page", 20, 1, 100_000)
    max_sessions: int | None = _limit("open pages", 60, 1, 100_000)
    sessions_per_address: int | None = _limit("open pages of one address", 30, 1, 100_000)
    heavy_running: int | None = _limit("heavy jobs at a time", 1, 1, 1_000)
    heavy_waiting: int | None = _limit("heavy jobs that wait for their turn", 20, 0, 100_000)
    heavy_per_session: int | None = _limit("heavy jobs of one session", 1, 1, 1_000)
    heavy_per_address: int | None = _limit("heavy jobs of one address", 5, 1, 1_000)
    heavy_seconds: float | None = _limit("seconds of one heavy job", 120.0, 1, 86_400)
    max_studies: int | None = _limit("studies, and texts to study, kept", 12, 1, 10_000)
    memory_mb: int | None = _limit("MB of the whole server", 1_700, 100, 10_000_000)


@dataclass(frozen=True)
class Reading:
    """Settings in force, and the source of each."""

    settings: Settings
    origins: dict[str, str]  # in words: "default", a variable's name, or the file's


def read(environment: Mapping[str, str] | None = None) -> Reading:
    """Read the settings from the environment, by default this process's, and the file it names.

    Raises SettingsError: a key that does not exist, or a value of the wrong kind or out of range.
    """
    environment = os.environ if environment is None else environment
    by_name = {choice.name: choice for choice in fields(Settings)}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(by_name, "default")
    path = environment.get(FILE, "").strip()
    for key, value in (_table(Path(path)) if path else {}).items():
        shown = f"{key} in {Path(path).name}"
        values[key] = _checked(_field_named(key, by_name, shown), value, shown)
        origins[key] = Path(path).name
    for variable in sorted(environment.keys() - _OTHERS):
        if not variable.startswith(PREFIX):
            continue
        key = variable.removeprefix(PREFIX).lower()
        choice = _field_named(key, by_name, variable)
        raw = environment[variable].strip()
        if not raw:  # as a shell and a compose file leave one out
            continue
        values[key] = _checked(choice, _parsed(choice, raw), variable)
        origins[key] = variable
    if values.get("classroom"):
        values["public"], origins["public"] = True, origins["classroom"]
    if values.get("public"):
        for name in by_name.keys() - values.keys():
            if "public" in (facts := by_name[name].metadata):
                values[name], origins[name] = facts["public"], "default of public servers"
    return Reading(Settings(**values), origins)


def _table(path: Path) -> dict[str, Any]:
    """Return the one table of a settings file."""
    expected = f"Expected a settings file in TOML with one table [{TABLE}]"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise SettingsError(f"{expected}, got more than {_MAX_BYTES:,} bytes in {path.name}.")
        tables = tomllib.loads(raw.decode())
    except OSError as error:
        why = f"{error.strerror or error}. Correct --config or {FILE}."
        raise SettingsError(f"{expected} at {path}: {why}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise SettingsError(f"{expected}, got {path.name}, which is none: {error}.") from error
    unknown, table = [name for name in tables if name != TABLE], tables.get(TABLE, {})
    if unknown or not isinstance(table, dict):
        got = f"got {(unknown or [TABLE])[0]!r} in {path.name}"
        raise SettingsError(f"{expected}, {got}: put all settings below a line [{TABLE}].")
    return table


def _field_named(key: str, by_name: Mapping[str, Field[Any]], shown: str) -> Field[Any]:
    if key not in by_name:
        near = difflib.get_close_matches(key, by_name, 1)
        advice = f"which is none. Is {near[0]} meant?" if near else "which is none."
        raise SettingsError(
            f"Expected one of the settings {', '.join(by_name)}, got {shown}, {advice}"
        )
    return by_name[key]


def _parsed(choice: Field[Any], raw: str) -> object:
    """Read a value of the environment as a file would have it; an unreadable one stays text."""
    if choice.type is bool:
        return _SWITCHES.get(raw.lower(), raw)
    if choice.name in _LISTS:
        return [name.strip() for name in raw.split(",") if name.strip()]
    if choice.name in _STRINGS:
        return raw
    number: Callable[[str], float] = float if _has_fractions(choice) else int
    try:
        return number(raw)
    except ValueError:
        return raw


def _checked(choice: Field[Any], value: Any, shown: str) -> Any:
    """Return a valid value of a setting, which the file or environment calls `shown`."""
    expected, fits, value = _compared(choice, value)
    if not fits:
        raise SettingsError(f"{shown}: expected {expected}, got {str(value)[:80]!r}.")
    return value


def _compared(choice: Field[Any], value: Any) -> tuple[str, bool, Any]:
    """Return what a setting accepts, whether the value is valid, and the value to store."""
    if choice.type is bool:
        return "true or false (in the environment 1 or 0)", isinstance(value, bool), value
    if choice.name in _LISTS:
        expected, is_entry = _LISTS[choice.name]
        fits = isinstance(value, list) and all(isinstance(e, str) and is_entry(e) for e in value)
        return expected, fits, tuple(value) if fits else value
    if choice.name in _STRINGS:
        expected, is_one = _STRINGS[choice.name]
        fits = isinstance(value, str) and bool(is_one(value))
        secret = choice.name == "metrics_token"
        return expected, fits, "another one" if secret and not fits else value
    low, high = choice.metadata["low"], choice.metadata["high"]
    fractions = _has_fractions(choice)
    kinds = (int, float) if fractions else (int,)
    fits = type(value) in kinds and low <= value <= high  # True is an int, too
    expected = f"{'a number' if fractions else 'a whole number'} from {low:,} to {high:,}"
    return expected, fits, float(value) if fits and fractions else value


def _is_network(value: str) -> bool:
    """Return whether a value is an address or a network that is no larger than a proxy's."""
    with suppress(ValueError):
        network = ip_network(value, strict=False)
        return network.prefixlen >= _WIDEST[network.version]
    return False


def _has_fractions(choice: Field[Any]) -> bool:
    return "float" in str(choice.type)


# Settings that are strings: what they take, and whether a string is that.
_STRINGS: dict[str, tuple[str, Callable[[str], object]]] = {
    "cluster": ("auto, or HOST:PORT of a Ray cluster's head", _CLUSTER.match),
    "shared": ("the absolute path of a folder", lambda value: Path(value).is_absolute()),
    "metrics_token": (
        f"a password of at least {_MIN_TOKEN} characters",
        lambda value: value.isascii() and len(value) >= _MIN_TOKEN,
    ),
}
# Settings that are lists: what they take, and whether a string is an entry of one.
_LISTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "models": ("a list of models on the Hub, each as owner/name", is_hub_id),
    "embedded_in": ("a list of origins, each as https://example.org", _ORIGIN.match),
    "trusted_proxies": (
        "a list of addresses or networks, each as 10.0.0.7 or 10.0.0.0/8, and none wider than /8 "
        "(of IPv6 /7)",
        _is_network,
    ),
}


@cache
def settings() -> Settings:
    """Return this server's settings, as `read`. Raises SettingsError: they make no sense."""
    return read().settings
