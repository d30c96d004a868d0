"""Commands: functions whose help stands in help.toml, and whose arguments may come in groups."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from importlib.resources import files
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand

from mha_viz.cli.notes import set_quiet
from mha_viz.errors import ArgumentError, MhaVizError

_HELP = tomllib.loads((files(__package__) / "help.toml").read_text("utf-8"))
# Arguments of the library that a flag has another name for.
_FLAGS_OF = {
    "top_k": "top",
    "n_seeds": "seeds",
    "n_examples": "examples",
    "text_pair": "pair",
    "k": "limit",
    "keep_texts": "texts",
    "devices": "device",
    "top": "measure",
    "measure": "pairs",
}
_VALUE = r"""'[^']*'|"[^"]*"|\.\.\.|[\w+-]+(?:\.\w+)*"""
_VERB = r"(?= (?:must|needs|takes|has|is for|belongs?|expected|and --))"


class Command(TyperCommand):
    """A command that takes --json where it has --format."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read --json as --format json."""
        if any("--format" in param.opts for param in self.params):
            end = args.index("--") if "--" in args else len(args)
            args = ["--format=json" if a == "--json" else a for a in args[:end]] + args[end:]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error that names an argument of the library names its flag."""
        try:
            return super().invoke(ctx)
        except MhaVizError as error:
            message = _in_flags(str(error), self.params)
            if message == str(error):
                raise
            raise ArgumentError(message) from error.__cause__


def add(group: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Any]:
    """Add a command to a group; a dataclass among its arguments stands for the options in it."""
    return lambda function: group.command(name, cls=Command)(_flat(function))


def _flat(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function of single options, which puts those of each group together."""
    parameters = signature(function, eval_str=True).parameters
    kinds = {name: parameter.annotation for name, parameter in parameters.items()}
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    parts = {name: signature(kind, eval_str=True).parameters for name, kind in groups.items()}

    @wraps(function)
    def command(**values: Any) -> None:
        set_quiet(values.pop("quiet"))
        for name, kind in groups.items():
            values[name] = kind(**{part: values.pop(part) for part in parts[name]})
        function(**values)

    texts = _HELP[function.__module__.rpartition(".")[2]].get(function.__name__, {})
    flat = []
    for name, parameter in parameters.items():
        help_texts = _HELP["shared"]
        for kind in reversed(groups[name].__mro__) if name in groups else ():
            help_texts = help_texts | _HELP["groups"].get(kind.__name__, {})
        members = parts.get(name, {name: parameter}).values()
        flat += [_option(part, help_texts | texts) for part in members]
    quiet = Parameter("quiet", Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    flat.append(_option(quiet, _HELP["shared"]))
    command.__signature__ = Signature(flat)  # type: ignore[attr-defined]  # read by typer
    return command


def _option(part: Parameter, texts: Mapping[str, str | list[str]]) -> Parameter:
    """Give an option its help and names; what has neither names nor a default is an argument."""
    part = part.replace(kind=Parameter.KEYWORD_ONLY)
    if get_origin(part.annotation) is Annotated:
        return part
    help_text = texts[part.name]
    *names, text = [help_text] if isinstance(help_text, str) else help_text
    if part.default is False and not names:
        names = [f"--{part.name.replace('_', '-')}"]  # and no --no- beside it
    is_option = names or part.default is not Parameter.empty
    about = typer.Option(*names, help=text) if is_option else typer.Argument(help=text)
    return part.replace(annotation=Annotated[part.annotation, about])


def _in_flags(message: str, params: Iterable[Any]) -> str:
    """Return an error's message with the flags of a command for the arguments that it names."""
    flags: dict[str, str] = {}
    for param in params:
        flag = next((name for name in param.opts if name.startswith("--")), None)
        if flag is not None:
            flags |= {param.name: flag, flag[2:].replace("-", "_"): flag}
    present_flags = {name: flags[other] for name, other in _FLAGS_OF.items() if other in flags}
    flags = present_flags | flags
    if "head" in flags and "layer" not in flags:
        flags["layer"] = "the layer of --head"
    if not flags:
        return message
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))

    def assigned(match: re.Match[str]) -> str:
        flag, value = flags[match[1]], (match[2] or "").strip("'\"")
        if value == "False":
            return f"--no-{flag[2:]}"
        return flag if value in ("", "...", "True") else f"{flag} {value}"

    message = re.sub(r"\b\w+=\w+ \((--[\w-]+)\)", r"\1", message)  # which names both
    message = re.sub(rf"(?<![\w./-])({names})=(?!=)({_VALUE})?", assigned, message)
    several = "|".join(name for name in names.split("|") if "_" in name)
    if several:
        message = re.sub(
            rf"(?<![\w.-])({several})(?![\w=])", lambda match: flags[match[1]], message
        )
    return re.sub(rf"(?:^|(?<=and ))({names}){_VERB}", lambda match: flags[match[1]], message)
