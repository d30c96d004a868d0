"""The command, called in this process."""

from typing import Any

from typer.testing import CliRunner, Result

from mha_viz.cli import main as cli

TEXT = "The walking cat sat"


def call(*arguments: str, code: int = 0, **options: Any) -> Result:
    """Run the command and check its exit status; tables are as wide as they need."""
    env = {"COLUMNS": None, **options.pop("env", {})}
    done = CliRunner().invoke(cli.app, arguments, env=env, **options)
    assert done.exit_code == code, done.output
    return done
