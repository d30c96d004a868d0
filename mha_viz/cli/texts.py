"""The texts that a command is given, which are checked before a model is loaded."""

import sys
from pathlib import Path

import typer

from mha_viz.errors import TextError
from mha_viz.text.cleaning import clean_text

MAX_FILE_BYTES = 1_000_000  # of a file of texts: more than any of these commands can run
_TEXT_ENDINGS = frozenset(
    ".txt .text .md .rst .csv .tsv .json .jsonl .conllu .parquet .gz .zip .log .html .htm .xml "
    ".tex .pdf .doc .docx .odt .rtf .xlsx .py .ipynb .yaml .yml".split()
)
# Of files whose lines hold more than a text.
_TABLE_ENDINGS = frozenset(".csv .tsv .json .jsonl .conllu .parquet .xlsx .ipynb".split())


def _is_file_name(text: str) -> bool:
    """Return whether a text is the name of a file, existing or not, and not something to read."""
    if len(text) < 2 or any(map(str.isspace, text)):
        return False
    path = Path(text)
    if (
        path.suffix.lower() in _TEXT_ENDINGS
        or path.is_absolute()
        or text.startswith(("./", "../", "~/"))
    ):
        return True
    try:
        return "/" in text and path.parent.is_dir()
    except (OSError, ValueError):  # too long a name, or one with NUL in it
        return False


def read_text(context: typer.Context, text: str) -> str:
    """Return the text, or that of standard input, once it is checked: before a model is loaded.

    Raises:
        TextError: as `clean_text` says; the name of a file.
    """
    _refuse_file_name(text)
    if text == "-" and not context.resilient_parsing:  # which only completes the command
        text = sys.stdin.read()
    clean_text(text)
    return text


def check_second(text: str | None) -> str | None:
    """Return a second text, if there is one, once it is checked as `read_text` does."""
    if text is not None:
        _refuse_file_name(text)
        clean_text(text, "second text")
    return text


def _refuse_file_name(text: str) -> None:
    if _is_file_name(text):
        raise TextError(
            f"{text} is the name of a file, and a text is expected here: give a file, or this "
            "name as a text, on standard input with - in its place."
        )


def read_texts(source: str) -> list[str]:
    """Return each line of a file or of standard input that is not blank; or the text itself.

    Raises:
        TextError: no text, or one that cannot be used; a file that is too large or holds no text.
    """
    path = Path(source)
    try:
        is_file = source != "-" and path.is_file()
    except (OSError, ValueError):  # a long text, or one with NUL in it, names no file
        is_file = False
    if source != "-" and not is_file:
        if _is_file_name(source):
            raise TextError(
                f"There is no file {source}: expected a text, a file with one text a line, or - "
                "for standard input, which also takes a text that looks like a file name."
            )
        clean_text(source)
        return [source]
    if is_file and path.suffix.lower() in _TABLE_ENDINGS:
        raise TextError(
            f"{path} is a table, and each line would be read as a text: give a file with one "
            "text a line, or its column on standard input with - in its place."
        )
    if is_file and path.stat().st_size > MAX_FILE_BYTES:
        raise TextError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes: give fewer texts.")
    try:
        content = sys.stdin.read() if source == "-" else path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not a text in UTF-8.") from error
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    if not lines:
        raise TextError("There is no text in it: expected one text a line.")
    for line in lines:
        clean_text(line)
    return lines
