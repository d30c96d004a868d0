"""Pairs of texts that somebody gives: read from lines, rows or a table, and encoded for a model."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mha_viz.circuits.tasks.templates import Pair
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import check_predicts, mask_token
from mha_viz.text.cleaning import clean_text, in_a_row, kind_of, visible
from mha_viz.text.encoding import encode_texts, label_of
from mha_viz.text.tokens import Encoded, tokenizer_errors

MAX_BYTES = 1_000_000  # of a file of pairs
Source = str | Path | pd.DataFrame | Sequence[Any]  # which are rows of four texts
Rows = Iterable[tuple[object, Sequence[object]]]  # each with its number or name
_MASK = "[MASK]"
# Words that name a column of such a table, ours and others'; a text is mostly longer.
_HEADINGS = frozenset(
    "clean corrupt corrupted answer wrong right correct incorrect original counterfactual prompt "
    "text sentence good bad target foil distractor alternative source base label "
    "clean_text corrupt_text corrupted_text wrong_answer right_answer correct_answer".split()
)


def read_pairs(source: Source) -> tuple[dict[str, Pair], list[str]]:
    """Read pairs by their name ("Line 3", a DataFrame's "Row 0"), and why other rows are none.

    The source is lines of four cells, separated by tabs, else by |, else by commas, where the first
    line may name the columns; cells in quotation marks are read as CSV has them. Or it is a file of
    such lines, rows of four texts, or a DataFrame. Raises ArgumentError: a table without the
    columns; a file that cannot be read.
    """
    if isinstance(source, Path):
        source = _content(source)
    rows: Rows
    if isinstance(source, str):
        name, rows = "Line", _lines(source)
    elif isinstance(source, pd.DataFrame):
        name, rows = "Row", _columns(source)
    else:
        name, rows = "Pair", _rows(source)
    pairs, left_out = dict[str, Pair](), list[str]()
    for number, row in rows:
        cells = [
            str(cell).strip() if isinstance(cell, str | int | float) and cell == cell else ""
            for cell in row
        ]
        if len(cells) != len(Pair._fields):
            left_out.append(
                f"{name} {number} was left out. It has {len(cells)} of {len(Pair._fields)} cells: "
                "expected a clean text, a corrupt one, the answer and the wrong answer."
            )
        else:
            pairs[f"{name} {number}"] = Pair(*cells)
    return pairs, left_out


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ArgumentError(f"{path} is larger than {MAX_BYTES:,} bytes: give fewer pairs.")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not a text in UTF-8: save it as CSV in UTF-8.") from error
    except OSError as error:
        reason = error.strerror or "it is no file"
        raise ArgumentError(f"{path} cannot be read as a file of pairs: {reason}.") from error


def _lines(text: str) -> Rows:
    separator = next((sign for sign in "\t|" if sign in text), ",")
    lines = csv.reader(
        text.splitlines(True), delimiter=separator, skipinitialspace=separator != "\t"
    )
    try:
        rows = [(lines.line_num, row) for row in lines if any(map(str.strip, row))]
    except csv.Error as error:
        raise ArgumentError(f"These lines cannot be read as a table: {error}.") from error
    named = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    if missing := [field for field in Pair._fields if field not in named]:
        if len(_HEADINGS.intersection(named)) > 1 and all(len(cell.split()) < 3 for cell in named):
            raise ArgumentError(
                f"The first line names columns ({', '.join(named)}), and lacks "
                f"{', '.join(missing)}: expected clean, corrupt, answer and wrong, or no names."
            )
        return list(rows)
    columns = [named.index(field) for field in Pair._fields]
    return [
        (number, [row[at] for at in columns] if len(row) > max(columns) else [])
        for number, row in rows[1:]
    ]


def _rows(source: Sequence[Any]) -> Rows:
    try:
        return [
            (i, [row] if isinstance(row, str) else list(row)) for i, row in enumerate(source, 1)
        ]
    except TypeError as error:
        raise ArgumentError(
            "source must be the name of a task, lines, a file, a DataFrame, or rows of four texts "
            f"(clean, corrupt, answer, wrong); got {source!r:.80}."
        ) from error


def _columns(table: pd.DataFrame) -> Rows:
    if missing := [field for field in Pair._fields if field not in table.columns]:
        raise ArgumentError(f"The table lacks the columns {', '.join(missing)}.")
    return enumerate(table[list(Pair._fields)].values.tolist())


def encode_pair(model: AttentionModel, pair: Pair) -> tuple[Encoded, Encoded, int, int, int]:
    """Encode both texts and answers: clean, corrupt, the place of the answer, right, wrong.

    A causal model reads the text as far as [MASK]. Where a text holds no [MASK], the answer follows
    it: a word behind a space, a sign at once. Raises ArgumentError or TextError: what does not fit,
    for instance texts of different lengths.
    """
    masked = check_predicts(model.network) == "masked"
    before, space, typed = _parts(model, pair.clean, pair.answer, masked)
    texts = [typed, _parts(model, pair.corrupt, pair.answer, masked)[2]]
    clean, corrupt = (_encode(model, text) for text in texts)
    if len(clean.input_ids) != len(corrupt.input_ids):
        rows = [in_a_row((t.text for t in text.tokens), 100) for text in (clean, corrupt)]
        raise ArgumentError(
            f"Its texts have {len(clean.input_ids)} and {len(corrupt.input_ids)} tokens, not "
            f"as many: {rows[0]} / {rows[1]}."
        )
    if clean.input_ids == corrupt.input_ids:
        raise ArgumentError("Both of its texts are the same tokens.")
    positions = [
        _mask_position(model, text) if masked else len(text.input_ids) - 1
        for text in (clean, corrupt)
    ]
    if positions[0] != positions[1]:
        raise ArgumentError(
            f"[MASK] stands at position {positions[0]} of its clean text and at {positions[1]} of "
            "the corrupt one."
        )
    right, wrong = (_answer(model, before, space, word) for word in (pair.answer, pair.wrong))
    if right == wrong:
        raise ArgumentError(f"“{visible(pair.answer)}” is its answer and its wrong answer.")
    return clean, corrupt, positions[0], right, wrong


def _parts(model: AttentionModel, text: str, answer: str, masked: bool) -> tuple[str, str, str]:
    """Return what stands before the answer, the space between, and the text to encode."""
    mask = mask_token(model) if masked else _MASK
    before, mark, after = clean_text(text).replace(_MASK, mask).partition(mask)
    if mask in after:
        raise ArgumentError("One of its texts holds [MASK] twice, and it has one answer.")
    words = clean_text(before, "text before [MASK]") if before or not masked else ""
    space = words[len(words.rstrip()) :]
    if not mark:
        space = " " if kind_of(clean_text(answer, "answer").strip()[0]) in "a0" else ""
    words = words.rstrip()
    return words, space, f"{words}{space}{mask}{after}" if masked else words


def _encode(model: AttentionModel, text: str) -> Encoded:
    encoded = encode_texts(model.reader, text)[0]
    if encoded.n_truncated:
        raise ArgumentError(f"A text is longer than the {model.n_ctx} tokens of {model.name}.")
    if encoded.n_unknown:
        raise ArgumentError(f"{model.name} has no token for {encoded.n_unknown} parts of a text.")
    return encoded


def _mask_position(model: AttentionModel, text: Encoded) -> int:
    mask = model.tokenizer.mask_token_id
    if mask not in text.input_ids:
        raise ArgumentError(f"{model.name} does not read its {mask_token(model)} in a text.")
    return text.input_ids.index(mask)


def _answer(model: AttentionModel, before: str, space: str, answer: str) -> int:
    """Return the one token of an answer where it stands."""
    tokenizer, answer = model.tokenizer, clean_text(answer, "answer").strip()
    with tokenizer_errors("an answer"):
        ids_before, ids_of_both, alone = (
            tokenizer.encode(text, add_special_tokens=False) if text else []
            for text in (before, before + space + answer, space + answer)
        )
    joins = ids_of_both[: len(ids_before)] != ids_before
    ids = alone if joins else ids_of_both[len(ids_before) :]
    if len(ids) == 1 and ids[0] != tokenizer.unk_token_id and not joins:
        return int(ids[0])
    pieces = in_a_row(label_of(tokenizer, number) for number in ids)
    reason = "is not in the vocabulary" if len(ids) == 1 else f"is {len(ids)} tokens ({pieces})"
    raise ArgumentError(
        f"The answer “{visible(answer)}” {'joins the text before it' if joins else reason}: "
        f"expected one token of {model.name}."
    )
