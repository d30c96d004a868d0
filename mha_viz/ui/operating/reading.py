"""Settings from a TOML file and from the environment, which goes before it; every value checked."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from mha_viz.checkpoints.hub_cache import is_hub_id
from mha_viz.errors import SettingsError
from mha_viz.ui.operating.limits import Settings

PREFIX = "MHA_VIZ_"
FILE = f"{PREFIX}CONFIG"
TABLE = "mha_viz"
_OTHERS = {FILE, f"{PREFIX}BENCH_CACHE"}  # of the environment, and no settings
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_ORIGIN = re.compile(r"https?://(\*\.)?[a-z0-9.-]+(:\d{1,5})?\Z", re.IGNORECASE)
_MIN_TOKEN = 16  # characters: what is shorter may be guessed
_MAX_BYTES = 2**16  # of a settings file


@dataclass(frozen=True)
class Reading:
    """Settings, and where each came from.

    Args:
        settings: in force.
        origins: by a setting's name, in words: "default", a variable's name, or the file's.
    """

    settings: Settings
    origins: dict[str, str]


def read(environment: Mapping[str, str] | None = None) -> Reading:
    """The settings that the environment gives, and the file that it names.

    Args:
        environment: of the server; None is this process's.

    Raises:
        SettingsError: a key that does not exist, or a value of the wrong kind or out of range.
    """
    environment = os.environ if environment is None else environment
    by_name = {choice.name: choice for choice in fields(Settings)}
    found: dict[str, Any] = {}
    origins = dict.fromkeys(by_name, "default")
    path = environment.get(FILE, "").strip()
    for key, value in (_table(Path(path)) if path else {}).items():
        shown = f"{key} in {Path(path).name}"
        found[key] = _checked(_known(key, by_name, shown), value, shown)
        origins[key] = Path(path).name
    for variable in sorted(environment.keys() - _OTHERS):
        if not variable.startswith(PREFIX):
            continue
        key = variable.removeprefix(PREFIX).lower()
        choice = _known(key, by_name, variable)
        raw = environment[variable].strip()
        if not raw:  # as a shell and a compose file leave one out
            continue
        found[key] = _checked(choice, _parsed(choice, raw), variable)
        origins[key] = variable
    if found.get("public"):
        for name in by_name.keys() - found.keys():
            if "public" in (facts := by_name[name].metadata):
                found[name], origins[name] = facts["public"], "default of public servers"
    return Reading(Settings(**found), origins)


def _table(path: Path) -> dict[str, Any]:
    """The one table of a settings file."""
    expected = f"Expected a settings file in TOML with one table [{TABLE}]"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise SettingsError(f"{expected}, got more than {_MAX_BYTES:,} bytes in {path.name}.")
        tables = tomllib.loads(raw.decode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(f"{expected} at {path}: {reason}. Correct {FILE}.") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise SettingsError(f"{expected}, got {path.name}, which is none: {error}.") from error
    others = [name for name in tables if name != TABLE]
    table = tables.get(TABLE, {})
    if others or not isinstance(table, dict):
        raise SettingsError(
            f"{expected}, got {(others or [TABLE])[0]!r} in {path.name}: put all settings below a "
            f"line [{TABLE}]."
        )
    return table


def _known(key: str, by_name: Mapping[str, Field[Any]], shown: str) -> Field[Any]:
    if key not in by_name:
        near = difflib.get_close_matches(key, by_name, 1)
        meant = f" Is {near[0]} meant?" if near else ""
        raise SettingsError(
            f"Expected one of the settings {', '.join(by_name)}, got {shown}, which is none.{meant}"
        )
    return by_name[key]


def _parsed(choice: Field[Any], raw: str) -> object:
    """A value of the environment as a file would have it; as it is where it makes no sense."""
    if choice.name == "public":
        return _SWITCHES.get(raw.lower(), raw)
    if choice.name in ("models", "embedded_in"):
        return [name.strip() for name in raw.split(",") if name.strip()]
    if choice.name == "metrics_token":
        return raw
    number: Callable[[str], float] = float if _has_fractions(choice) else int
    try:
        return number(raw)
    except ValueError:
        return raw


def _checked(choice: Field[Any], value: Any, shown: str) -> Any:
    """The value that a setting takes.

    Args:
        choice: the setting.
        value: as the file or the environment has it.
        shown: its name there, for a message.
    """
    if choice.name == "public":
        expected, fits = "true or false (in the environment 1 or 0)", isinstance(value, bool)
    elif choice.name == "models":
        expected = "a list of models on the Hub, each as owner/name"
        fits = isinstance(value, list) and all(isinstance(m, str) and is_hub_id(m) for m in value)
        value = tuple(value) if fits else value
    elif choice.name == "embedded_in":
        expected = "a list of origins, each as https://example.org"
        fits = isinstance(value, list) and all(
            isinstance(o, str) and _ORIGIN.match(o) for o in value
        )
        value = tuple(value) if fits else value
    elif choice.name == "metrics_token":
        expected = f"a password of at least {_MIN_TOKEN} characters"
        fits = isinstance(value, str) and value.isascii() and len(value) >= _MIN_TOKEN
        if not fits:
            value = "another one"  # it is secret
    else:
        low, high = choice.metadata["low"], choice.metadata["high"]
        fractions = _has_fractions(choice)
        expected = f"{'a number' if fractions else 'a whole number'} from {low:,} to {high:,}"
        kinds = (int, float) if fractions else (int,)
        fits = type(value) in kinds and low <= value <= high  # True is an int, too
        value = float(value) if fits and fractions else value
    if not fits:
        raise SettingsError(f"{shown}: expected {expected}, got {str(value)[:80]!r}.")
    return value


def _has_fractions(choice: Field[Any]) -> bool:
    return "float" in str(choice.type)
