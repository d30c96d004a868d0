"""The command `mha-viz`: the same abilities without a browser.

Knows every room below ui, and imports each one when a command needs it: --help must not wait for
torch. Results go to stdout; notes and errors go to stderr.
"""

from __future__ import annotations

import errno
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mha_viz import __version__
from mha_viz.cli import circuits, command, options, patching, study_commands
from mha_viz.cli import format as formats
from mha_viz.cli import server as cli_server
from mha_viz.cli import streams as cli_streams
from mha_viz.cli.format import Format, ListFormat, ReportFormat
from mha_viz.cli.notes import print_notes, tell
from mha_viz.errors import ArgumentError, MhaVizError, escaped
from mha_viz.extras import require

if TYPE_CHECKING:
    from mha_viz.core.record.attention_record import AttentionRecord

FAILED, INTERRUPTED = 2, 130


class _Commands(TyperGroup):
    """Commands whose errors that are meant for the user become one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MhaVizError as error:
            if isinstance(error.__cause__, BrokenPipeError):  # of --out /dev/stdout
                raise error.__cause__ from None
            _fail(str(error))
        except typer.BadParameter as error:
            message = error.format_message().replace("Value error, ", "").rstrip(".")
            _fail(message if error.ctx is None else f"{message}. See {error.ctx.command_path} -h.")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # `| head` has read enough; typer ends it quietly
                raise
            _fail(cli_streams.error_message(error))


def _fail(message: str) -> None:
    typer.echo(f"error: {escaped(' '.join(message.split()))}", err=True)
    raise typer.Exit(FAILED)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A microscope for attention heads.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> bool:
    if requested:
        typer.echo(f"mha-viz {__version__}")
        raise typer.Exit
    return requested


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Show what attention heads do."""


@app.command("app")
def start_app(
    host: Annotated[
        str | None,
        typer.Option(
            help="Address to listen on.",
            envvar="STREAMLIT_SERVER_ADDRESS",
            show_default="127.0.0.1; with --class 0.0.0.0, which is all addresses",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port to listen on.", envvar="STREAMLIT_SERVER_PORT")
    ] = 8501,
    public: Annotated[
        bool, typer.Option("--public", help="Public mode: limits apply, folders are off.")
    ] = False,
    in_class: Annotated[
        bool,
        typer.Option("--class", help="Class mode: public mode for this network, with one class."),
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, in a table named mha_viz.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Print the settings and check this machine without starting."),
    ] = False,
) -> None:
    """Start the web app."""
    from mha_viz.cli import checking

    modes = [name for name, on in (("public", public), ("classroom", in_class)) if on]
    if host is None:
        host = "0.0.0.0" if in_class else "127.0.0.1"
    if check:
        checking.print_check(modes, config, host, port)
        return
    settings = checking.read_settings(modes, config).settings
    script = _app_script()
    cli_server.check_free(host, port)
    require("app", "The web app")
    from streamlit.web import cli as streamlit

    # Both are always given: Streamlit exchanges a port that was not requested for another one.
    command = ["run", str(script), "--server.address", host, "--server.port", str(port)]
    with cli_server.announce_address(host, port, settings.classroom):
        streamlit.main(command)


def _app_script() -> Path:
    """Return the app: inside the package where it was installed, beside it in a source tree."""
    package = Path(__file__).parents[1]
    candidates = (package / "webapp" / "app.py", package.parent / "app.py")
    script = next((candidate for candidate in candidates if candidate.is_file()), None)
    if script is None:
        raise MhaVizError("The web app is missing from this installation: install mha-viz again.")
    return script


@command.add(app)
def trace(
    source: options.TextRun, out: options.RecordOut = None, kind: options.ListAs = ListFormat.table
) -> None:
    """Run a text through a model and show what its heads do."""
    record = _trace(source)
    if out is not None:
        record.save(out)
        tell(f"wrote {out}")
    facts = formats.strongest_heads(record)
    if kind is ListFormat.json:
        typer.echo(json.dumps({**formats.record_header(record), "facts": facts}, indent=2))
        return
    typer.echo(formats.headline(record))
    typer.echo("tokens: " + " | ".join(record.labels))
    if record.key_labels != record.labels:
        typer.echo("key tokens: " + " | ".join(record.key_labels))
    typer.echo("strongest head by")
    for fact in facts:
        name = f"L{fact['layer']} H{fact['head']}"
        typer.echo(f"  {fact['title']:<22} {name:<8} {fact['value']:.3f}")


@command.add(app)
def show(
    source: options.TextRun,
    layer: int | None = None,
    head: int | None = None,
    kind: options.ShowAs = Format.table,
    out: options.Out = None,
    words: bool = False,
    no_special: bool = False,
    yes: bool = False,
) -> None:
    """Show one head's attention weights; without --layer and --head a picture of all heads."""
    chosen = None if layer is None or head is None else (layer, head)
    if chosen is None and (kind not in formats.PICTURES or layer != head):
        raise ArgumentError("Choose a head with --layer and --head (both counted from 0).")
    record = _trace(source)
    from mha_viz.core.record.chosen import place_of

    record = record.merge_words() if words else record
    record = record.without_special() if no_special else record
    if chosen is not None:
        chosen = place_of(record, chosen)  # raises for a head that does not exist
    if kind in formats.PICTURES:
        options.deliver(formats.picture(record, chosen, kind), out)
        return
    assert chosen is not None
    if kind is Format.csv and not yes:
        options.confirm_rows(record.shape[2] * record.shape[3])
    writers = {Format.table: formats.pair_table, Format.csv: formats.head_csv}
    options.deliver(writers.get(kind, formats.head_json)(record, *chosen), out)


@command.add(app)
def report(
    source: options.TextRun,
    kind: options.ReportAs = ReportFormat.table,
    out: options.Out = None,
    words: bool = False,
    baseline: bool = True,
) -> None:
    """Measure every head: scores with baselines, labels, nearest heads."""
    from mha_viz.reports.report import KEEP
    from mha_viz.reports.report import report as make

    loaded = source.load()
    record = source.trace(loaded, KEEP)
    record = record.merge_words() if words else record
    head_report = make(record, loaded, untrained=baseline)
    options.deliver(formats.report(record, head_report.table(record), kind), out)
    print_notes(head_report.notes)


@command.add(app)
def models(kind: options.ListAs = ListFormat.table) -> None:
    """List the models that load without network: shipped, and in the Hugging Face cache.

    Below them, except as JSON, some of the Hub that are fetched when they are first asked for.
    """
    from mha_viz.checkpoints.catalog import list_models, suggested
    from mha_viz.core.amounts import of_bytes

    model_infos = list_models()
    if kind is ListFormat.json:
        listed = [asdict(info) | {"path": str(info.path)} for info in model_infos]
        typer.echo(json.dumps(listed, indent=2))
        return
    columns = ["name", "source", "family", "layers", "heads", "size"]
    rows = []
    for info in model_infos:
        facts = (info.name, info.source, info.family, info.n_layers, info.n_heads)
        rows.append([*map(str, facts), of_bytes(info.n_bytes)])
    typer.echo(formats.grid(columns, rows, 3), nl=False)
    if absent := suggested({info.name for info in model_infos}):
        more = [[info.name, info.about, of_bytes(info.n_bytes)] for info in absent]
        typer.echo("\nfetched from the Hugging Face Hub when first asked for by name")
        typer.echo(formats.grid(["name", "what it is", "size"], more, 2), nl=False)


for function in (patching.ablate, patching.importance, patching.prune):
    command.add(app)(function)
app.add_typer(study_commands.app, name="study")
command.add(app)(study_commands.atlas)
group = typer.Typer(no_args_is_help=True, help="How heads work together, across layers.")
for of_circuits in (
    *(circuits.logits, circuits.scores, circuits.tokens, circuits.lens),
    *(circuits.composition, circuits.copying, circuits.vocabulary, circuits.flow),
    *(patching.path, patching.paths, patching.patch, patching.faithfulness),
    *(patching.edges, patching.report),
):
    command.add(group)(of_circuits)
command.add(group, "map")(circuits.query_key_map)
app.add_typer(group, name="circuits")


def _trace(source: options.TextRun) -> AttentionRecord:
    record = source.trace(source.load(), ("pattern",))
    print_notes(record.notes)
    return record


def main() -> None:
    """Run the command."""
    cli_streams.ensure_utf8()
    cli_streams.prepare_streams()
    try:
        app()
    except KeyboardInterrupt:  # before a command began
        sys.exit(INTERRUPTED)
    except OSError as error:  # of --help and --version, which are no commands
        typer.echo(f"error: {cli_streams.error_message(error)}", err=True)
        sys.exit(FAILED)
    finally:
        cli_streams.flush_quietly()
