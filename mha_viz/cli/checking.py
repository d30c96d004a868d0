"""The answer of `mha-viz app --check`: the settings in force, and whether the app could serve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import typer

from mha_viz.cli.format import grid
from mha_viz.cli.server import check_free
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import MhaVizError, SettingsError
from mha_viz.ui.operating.settings import FILE, PREFIX, Reading, Settings, read

LEAST = 700  # MB that the libraries, both shipped models and a few visitors take


class Finding(NamedTuple):
    """Something that was checked: what it is, what was found, whether the app can serve so."""

    what: str
    found: str
    good: bool


def read_settings(public: bool, config: Path | None) -> Reading:
    """Read and check the settings of the app; the command's arguments go before the environment.

    `public` False leaves it to the environment and the file, and so does `config` None.
    SettingsError: a setting is not valid.
    """
    if public:  # the environment is what the server reads, in this process
        os.environ[f"{PREFIX}PUBLIC"] = "1"
    if config is not None:
        os.environ[FILE] = str(config)
    return read()


def print_check(public: bool, config: Path | None, host: str, port: int) -> None:
    """Print the settings and what was found of this machine; exit status 1 where it cannot do."""
    try:
        reading = read_settings(public, config)
    except SettingsError as error:
        typer.echo(f"BAD settings: {error}")
        raise typer.Exit(1) from error
    typer.echo(table(reading))
    every = list(findings(reading.settings, host, port))
    for finding in every:
        typer.echo(f"{'ok ' if finding.good else 'BAD'} {finding.what}: {finding.found}")
    if not all(finding.good for finding in every):
        raise typer.Exit(1)


def table(reading: Reading) -> str:
    """Return every setting with its value and where that came from."""
    rows = [
        [
            choice.name,
            _shown(choice.name, getattr(reading.settings, choice.name)),
            choice.metadata["about"],
            reading.origins[choice.name],
        ]
        for choice in fields(reading.settings)
    ]
    return grid(["setting", "value", "of what", "from"], rows, 4)


def findings(settings: Settings, host: str, port: int) -> Iterator[Finding]:
    """Return what the app needs of this machine, looked at one after another."""
    yield from _models(settings)
    yield _memory(settings)
    if settings.sessions_per_address is not None:
        yield Finding("addresses", _proxies(settings), True)
    try:
        check_free(host, port)
    except MhaVizError as error:
        yield Finding("port", str(error), False)
    else:
        yield Finding("port", f"{port} of {host} is free", True)


def _models(settings: Settings) -> Iterator[Finding]:
    from mha_viz.checkpoints.catalog import list_models

    here = {info.name: info for info in list_models()}
    shipped = [info.name for info in here.values() if info.source == "shipped"]
    yield Finding("models", f"shipped: {', '.join(shipped) or 'none'}", bool(shipped))
    most = settings.max_parameters
    for name in settings.models:
        info = here.get(name)
        if info is None:
            yield Finding("models", f"{name} is not here yet: a visitor may fetch it", True)
        elif most is not None and info.n_bytes > 4 * most:
            found = f"{name} has {info.n_bytes // 4:,} parameters, more than max_parameters"
            yield Finding("models", found, False)
        else:
            yield Finding("models", f"{name}, {of_bytes(info.n_bytes)}", True)


def _memory(settings: Settings) -> Finding:
    try:
        from mha_viz.ui.operating import rss
    except ModuleNotFoundError:
        return Finding("memory", "not measured: install mha-viz with its extra `app`", False)
    left = rss.free()
    wanted = max(settings.memory_mb or LEAST, LEAST)
    most = "memory limit" if settings.memory_mb else "the app needs"
    found = f"{most} {of_bytes(wanted * 10**6)}; {of_bytes(left)} free on the machine"
    if settings.memory_mb is not None and settings.memory_mb < LEAST:
        return Finding(
            "memory", f"memory_mb is below the {LEAST} that the app takes at rest", False
        )
    return Finding("memory", found, left >= wanted * 10**6)


def _proxies(settings: Settings) -> str:
    """Return how visitors are told apart by address."""
    if settings.trusted_proxies:
        return f"visitors are told apart by the headers of {', '.join(settings.trusted_proxies)}"
    return (
        "no proxy is named in trusted_proxies: pages opened from this machine or a private network "
        "are not limited by address"
    )


def _shown(name: str, value: object) -> str:
    if name == "metrics_token":
        return "set" if value else "none: no /metrics"
    if isinstance(value, str):
        return value or "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "the app’s own" if value is None else f"{value:,}"
