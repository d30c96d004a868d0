"""Strangers' texts in the library and on the command line: a record that holds, or one sentence."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import mha_viz as mv
from mha_viz.cli import format as printed
from mha_viz.cli.main import app
from mha_viz.errors import MhaVizError
from mha_viz.plots.table_text import csv_text
from mha_viz.text.cleaning import clean_text
from tests.making.tags import Tags
from tests.strangers.fuzzing import LONG, fuzzed
from tests.strangers.hostile_texts import LARGE, NAMED, texts
from tests.strangers.spreadsheets import cells, formulas, undone

MODELS = ("tiny-bert", "tiny-gpt2", "tiny-llama")
EXPORTED = ("markup", "special tokens", "formulas", "controls")
RARE = {f"plane {n}" for n in range(4, 14)} | {f"category {k}" for k in "Cn Lm Mc Me Nd Sk".split()}
LARGE_DAILY = ("marks of all kinds", "surrogate pairs", "too long")
UNSEEN = {"Cc", "Cs", "Co", "Zl", "Zp"}  # and all of Cf but the joiners within a word


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> mv.AttentionModel:
    return mv.load(request.param)


def sentence(error: MhaVizError) -> str:
    """An error as people read it: a line or two that fit on a page, and show no raw character."""
    message = str(error)
    assert 0 < len(message) < 500, message
    assert not re.search(r"Traceback|object at 0x|Exception|panicked", message)
    assert not {unicodedata.category(char) for char in message} & UNSEEN, ascii(message)
    message.encode()
    return message


def traced(
    model: mv.AttentionModel, text: str, pair: str | None = None
) -> mv.AttentionRecord | None:
    """The record of a text, held to what every record is; None where the text was refused."""
    try:
        record = model.trace(text, text_pair=pair)
    except MhaVizError as error:
        sentence(error)
        return None
    assert record.text == clean_text(text)
    assert len(record.tokens) <= model.n_ctx
    assert record.pattern.sum(-1).numpy() == pytest.approx(1.0, abs=1e-4)
    for token in record.tokens:
        assert 0 < len(token.text) < 80
        hidden = {unicodedata.category(char) for char in token.text if char not in "\u200c\u200d"}
        assert not hidden & (UNSEEN | {"Cf"}), ascii(token.text)
    return record


def page_tags(record: mv.AttentionRecord, chosen: tuple[int, int] | None) -> list[tuple[str, ...]]:
    page = printed.picture(record, chosen, printed.Format.html)
    assert isinstance(page, str)
    return [(tag, *names) for tag, names in Tags(page).seen]


@pytest.fixture(scope="module")
def harmless(model: mv.AttentionModel) -> dict[object, list[tuple[str, ...]]]:
    record = model.trace("the cat sat")
    return {chosen: page_tags(record, chosen) for chosen in (None, (0, 0))}


def exported(record: mv.AttentionRecord, folder: Path, harmless: dict[object, object]) -> None:
    """Saved and loaded it is the same; its CSV runs nothing; its pages are as of any other text."""
    loaded = mv.AttentionRecord.load(record.save(folder / "record.safetensors"))
    assert loaded.tokens == record.tokens and loaded.text == record.text
    np.testing.assert_array_equal(loaded.pattern, record.pattern)
    data = printed.head_csv(record, 0, 0)
    assert not formulas(data)
    queries = [undone(row[1]) for row in cells(data)[1 :: len(record.tokens)]]
    assert queries == list(record.labels)
    json.loads(printed.head_json(record, 0, 0))
    for chosen, tags in harmless.items():
        assert page_tags(record, chosen) == tags  # type: ignore[arg-type]
    repr(record), record.merge_words(), record.without_special()
    if len(record.tokens) < 40:
        table = mv.head_report(record)
        assert len(table) == record.n_layers * record.n_heads and not formulas(csv_text(table))


def predicted(model: mv.AttentionModel, text: str) -> None:
    """A prediction whose probabilities are some, or a sentence why there is none."""
    try:
        found = mv.predict(model, text)
    except MhaVizError as error:
        sentence(error)
        return
    for place in (found, *found.other_predictions):
        assert np.isfinite(place.probabilities).all() and 0 < sum(place.probabilities) < 1.001


@pytest.mark.parametrize("name", NAMED if LONG else sorted(NAMED.keys() - RARE))
def test_named_texts(model, harmless, name, tmp_path) -> None:
    record = traced(model, NAMED[name])
    if LONG or name in EXPORTED:
        predicted(model, NAMED[name])
        if record is not None:
            exported(record, tmp_path, harmless)


@fuzzed(daily=10, long=5000)
@given(text=texts, pair=st.one_of(st.none(), texts))
def test_any_texts(model, text, pair) -> None:
    traced(model, text, pair)
    predicted(model, text)


@fuzzed(daily=3, long=5000)
@given(text=texts)
def test_what_any_text_is_made_into(model, harmless, tmp_path, text) -> None:
    record = traced(model, text)
    if record is not None:
        exported(record, tmp_path, harmless)


@pytest.mark.parametrize("name", LARGE if LONG else LARGE_DAILY)
def test_a_megabyte(model, name) -> None:
    """Reading takes time in proportion to a text: anything more would not end here."""
    traced(model, LARGE[name])


@fuzzed(daily=6, long=1000)
@given(text=texts, name=st.sampled_from(MODELS))
def test_the_command_tells_of_any_text(text, name) -> None:
    if text.startswith("-") or "\ud800" <= max(text, default="") <= "\udfff":
        text = f" {text}"  # what else a shell hands over is an option
    done = CliRunner().invoke(app, ["trace", "--json", "--model", name, "--", text])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if done.exit_code == 0:
        told = json.loads(done.stdout)
        assert told["text"] == clean_text(text)
    else:
        assert done.exit_code == 2 and done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
