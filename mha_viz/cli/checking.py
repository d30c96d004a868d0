"""The answer of `mha-viz app --check`: the settings in force, and whether the app could serve."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import typer

from mha_viz.cli.format import grid
from mha_viz.cli.server import check_free
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import MhaVizError
from mha_viz.extras import missing
from mha_viz.ui.operating.settings import FILE, PREFIX, Reading, Settings, read

MIN_MEMORY_MB = 700  # for the libraries, the shipped models and a few visitors


class Check(NamedTuple):
    """A check of this machine: its name, its result, and whether the app can serve so."""

    name: str
    result: str
    ok: bool


def read_settings(modes: Iterable[str], config: Path | None) -> Reading:
    """Read and check the settings of the app; the command's arguments go before the environment.

    `modes` are the settings that its options switch on; all else is left to the environment and
    the file, and so is the file where `config` is None. SettingsError: a setting is not valid.
    """
    for mode in modes:  # the environment is what the server reads, in this process
        os.environ[f"{PREFIX}{mode.upper()}"] = "1"
    if config is not None:
        os.environ[FILE] = str(config)
    return read()


def print_check(modes: Iterable[str], config: Path | None, host: str, port: int) -> None:
    """Print the settings and what was found of this machine; exit status 1 where it cannot do.

    SettingsError: a setting is not valid.
    """
    reading = read_settings(modes, config)
    typer.echo(settings_table(reading))
    checks = list(run_checks(reading.settings, host, port))
    for check in checks:
        typer.echo(f"{'ok ' if check.ok else 'BAD'} {check.name}: {check.result}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def settings_table(reading: Reading) -> str:
    """Return every setting with its value and where that came from."""
    rows = []
    for setting in fields(reading.settings):
        name, about = setting.name, setting.metadata["about"]
        value = _value_text(name, getattr(reading.settings, name))
        rows.append([name, value, about, reading.origins[name]])
    return grid(["setting", "value", "of what", "from"], rows, 4)


def run_checks(settings: Settings, host: str, port: int) -> Iterator[Check]:
    """Check one after another what the app needs of this machine."""
    yield from _models(settings)
    if absent := missing("app"):
        advice = f"install mha-viz with its extra `app`: {', '.join(absent)} not found"
        yield Check("packages", advice, False)
    else:
        yield _memory(settings)
    if settings.sessions_per_address is not None:
        yield Check("addresses", _proxies(settings), True)
    try:
        check_free(host, port)
    except MhaVizError as error:
        yield Check("port", str(error), False)
    else:
        yield Check("port", f"{port} of {host} is free", True)


def _models(settings: Settings) -> Iterator[Check]:
    from mha_viz.checkpoints.catalog import list_models

    present = {info.name: info for info in list_models()}
    shipped = [info.name for info in present.values() if info.source == "shipped"]
    yield Check("models", f"shipped: {', '.join(shipped) or 'none'}", bool(shipped))
    limit = settings.max_parameters
    for name in settings.models:
        info = present.get(name)
        if info is None:
            yield Check("models", f"{name} is not here yet: a visitor may fetch it", True)
        elif limit is not None and info.n_bytes > 4 * limit:
            result = f"{name} has {info.n_bytes // 4:,} parameters, more than max_parameters"
            yield Check("models", result, False)
        else:
            yield Check("models", f"{name}, {of_bytes(info.n_bytes)}", True)


def _memory(settings: Settings) -> Check:
    from mha_viz.ui.operating import memory_limit

    if settings.memory_mb is not None and settings.memory_mb < MIN_MEMORY_MB:
        result = f"memory_mb is below the {MIN_MEMORY_MB} that the app takes at rest"
        return Check("memory", result, False)
    free, needed = memory_limit.free_bytes(), (settings.memory_mb or MIN_MEMORY_MB) * 10**6
    reason = "memory limit" if settings.memory_mb else "the app needs"
    result = f"{reason} {of_bytes(needed)}; {of_bytes(free)} free on the machine"
    return Check("memory", result, free >= needed)


def _proxies(settings: Settings) -> str:
    """Return how visitors are distinguished by address."""
    if settings.trusted_proxies:
        return f"visitors are told apart by the headers of {', '.join(settings.trusted_proxies)}"
    return (
        "no proxy is named in trusted_proxies: pages opened from this machine or a private network "
        "are not limited by address"
    )


def _value_text(name: str, value: object) -> str:
    if name == "metrics_token":
        return "set" if value else "none: no /metrics"
    if isinstance(value, str):
        return value or "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "the app’s own" if value is None else f"{value:,}"
