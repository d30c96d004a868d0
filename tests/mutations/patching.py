"""A fault put into functions that are loaded already, without importing their module again."""

import ast
import gc
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class PatchError(Exception):
    """A fault that loaded functions cannot take."""


def is_in_function(text: str, start: int, end: int) -> bool:
    """Return whether lines lie in the body of a function, and not in its head."""
    return any(
        isinstance(node, FUNCTION)
        and node.body[0].lineno <= start
        and end <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse(text))
    )


def loaded_functions(folder: Path) -> dict[str, list[FunctionType]]:
    """Return all functions that are loaded from files of a folder, by file.

    Done before a fork: a look at every object would copy all memory that the processes share.
    """
    functions: dict[str, list[FunctionType]] = {}
    for value in gc.get_objects():
        if type(value) is FunctionType:
            file = value.__code__.co_filename
            if file.startswith(f"{folder}{os.sep}"):
                functions.setdefault(file, []).append(value)
    return functions


def patch(path: Path, before: str, after: str, functions: Iterable[FunctionType]) -> None:
    """Change the code of all functions that a module has defined.

    Args:
        path: the file of the module.
        before: its text, as it was loaded.
        after: the text with the fault.
        functions: those that are loaded from it.

    Raises:
        PatchError: the module is not loaded, or no loaded function has the fault.
    """
    module = next((m for m in list(sys.modules.values()) if _file(m) == str(path)), None)
    loader = getattr(module, "__loader__", None)
    if loader is None:
        raise PatchError(f"{path} is not loaded")
    # The module's loader adds the checks of shapes, as when it was imported.
    old, new = (loader.source_to_code(text.encode(), str(path)) for text in (before, after))
    codes = {(a.co_qualname, a.co_firstlineno): b for a, b in _pairs(old, new) if a != b}
    n_changed = 0
    for function in functions:
        code = function.__code__
        changed = codes.get((code.co_qualname, code.co_firstlineno))
        if changed is not None:
            if changed.co_freevars != code.co_freevars:
                raise PatchError(f"{code.co_qualname} has other free variables")
            function.__code__ = changed
            n_changed += 1
    if not n_changed:
        raise PatchError(f"no loaded function of {path} has the fault")


def _file(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Generate the functions of two modules side by side."""
    olds, news = (
        [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for code in (old, new)
    )
    if [code.co_name for code in olds] != [code.co_name for code in news]:
        return  # a comprehension has gone: the outer function holds what is left
    for first, second in zip(olds, news, strict=True):
        yield first, second
        yield from _pairs(first, second)
