"""Errors in the words of the command line: the library names its arguments, a command its flags."""

import re
from collections.abc import Iterable
from typing import Any

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


def in_flags(message: str, params: Iterable[Any]) -> str:
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
