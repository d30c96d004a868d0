"""The command's report: every cell is what the library says, in every format."""

import functools
import io
import json

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints import loading
from mha_viz.cli import main as cli
from mha_viz.reports.report import KEEP
from tests.cli.command import TEXT, call


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch):
    """Every call is a process of its own in real life; here the models may stay."""
    monkeypatch.setattr(loading, "load", functools.cache(loading.load))


def reported(model: str = "tiny-gpt2", *texts: str, baseline: bool = True) -> pd.DataFrame:
    """Return what the library says of the same text."""
    loaded = loading.load(model)
    record = loaded.trace(*(texts or (TEXT,)), keep=KEEP)
    return mv.head_report(record, loaded if baseline else None)


def assert_same(read: pd.DataFrame, table: pd.DataFrame) -> None:
    """Every cell, to the last bit of its float32; a text that is not there may be None or NaN."""
    assert list(read) == list(table) and len(read) == len(table)
    for name in table:
        if pd.api.types.is_float_dtype(table[name]):
            a, b = (frame[name].to_numpy(np.float32) for frame in (read, table))
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            assert read[name].fillna("").tolist() == table[name].fillna("").tolist(), name


def read(content: bytes, form: str) -> pd.DataFrame:
    if form == "json":
        return pd.DataFrame(json.loads(content)["heads"])
    return {"csv": pd.read_csv, "parquet": pd.read_parquet}[form](io.BytesIO(content))


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_report_holds_what_the_library_says(form, tmp_path):
    table = reported()
    assert_same(read(call("report", TEXT, "-f", form).stdout_bytes, form), table)
    out = tmp_path / f"r.{form.upper()}"  # the ending says the format
    done = call("report", TEXT, "--out", str(out))
    assert done.stdout == "" and f"wrote {out}" in done.stderr
    assert_same(read(out.read_bytes(), form), table)


def test_report_prints_a_line_for_each_head():
    out = call("report", TEXT).stdout
    table = reported()
    lines = [line for line in out.splitlines() if line.startswith(" L")]
    assert [line.split()[:2] for line in lines] == [
        [f"L{i}", f"H{j}"] for i in range(4) for j in range(8)
    ]
    for line, row in zip(lines, table.to_dict("records"), strict=True):
        assert line.split()[2:9] == [f"{row[key]:.3f}" for key in cli.formats.REPORT_COLUMNS]
        assert " ".join(line.split()[9:11]) == row["twin"]
        assert line.endswith(row["labels"])
        assert len(line.removesuffix(row["labels"])) <= 71  # leaves 100 columns room for two labels
    assert "nan" not in out


def test_report_says_what_is_not_defined(monkeypatch):
    table = reported(baseline=False).assign(twin=None)
    table["entropy"] = np.nan
    record = loading.load("tiny-gpt2").trace(TEXT)
    drawn = cli.formats.report(record, table, cli.ReportFormat.table)
    line = next(line for line in drawn.splitlines() if line.startswith(" L0 H0"))
    assert line.split()[2] == "–" and "nan" not in drawn and "None" not in drawn
    table.loc[0, "distance"] = np.inf
    heads = json.loads(cli.formats.report(record, table, cli.ReportFormat.json))["heads"]
    assert heads[0]["entropy"] is heads[0]["twin"] is heads[0]["distance"] is None
