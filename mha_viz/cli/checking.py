"""What `mha-viz app --check` says: the settings in force, and whether the app could serve so."""

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
from mha_viz.ui.operating import resident
from mha_viz.ui.operating.limits import Settings
from mha_viz.ui.operating.reading import FILE, PREFIX, Reading, read

LEAST = 700  # MB that the libraries, both shipped models and a few visitors take


class Finding(NamedTuple):
    """Something that was looked at: what it is, what was found, whether the app can serve so."""

    what: str
    found: str
    good: bool


def settled(public: bool, config: Path | None) -> Reading:
    """The settings of the app, checked; what the command says goes before the environment.

    Args:
        public: whether it is opened to strangers; False leaves it to the environment and the file.
        config: the settings file; None takes the one that the environment names.

    Raises:
        SettingsError: they make no sense.
    """
    if public:  # the environment is what the server reads, in this process
        os.environ[f"{PREFIX}PUBLIC"] = "1"
    if config is not None:
        os.environ[FILE] = str(config)
    return read()


def tell_check(public: bool, config: Path | None, host: str, port: int) -> None:
    """Print the settings and what was found of this machine; exit status 1 where it cannot do."""
    try:
        reading = settled(public, config)
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
    """Every setting with its value and where that came from."""
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
    """What the app needs of this machine, looked at one after another."""
    yield from _models(settings)
    yield _memory(settings)
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
    left = resident.free()
    if left is None:
        kept = " so that memory_mb cannot be kept" if settings.memory_mb else ""
        return Finding("memory", f"this system does not say how much there is{kept}", not kept)
    wanted = max(settings.memory_mb or LEAST, LEAST)
    most = "memory limit" if settings.memory_mb else "the app needs"
    found = f"{most} {of_bytes(wanted * 10**6)}; {of_bytes(left)} free on the machine"
    if settings.memory_mb is not None and settings.memory_mb < LEAST:
        return Finding(
            "memory", f"memory_mb is below the {LEAST} that the app takes at rest", False
        )
    return Finding("memory", found, left >= wanted * 10**6)


def _shown(name: str, value: object) -> str:
    if name == "metrics_token":
        return "set" if value else "none: no /metrics"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "the app’s own" if value is None else f"{value:,}"
