"""The command: what it prints, what it writes, and how it fails."""

import csv
import functools
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from streamlit.web import cli as streamlit

import mha_viz as mv
from mha_viz.checkpoints import loading
from mha_viz.cli import main as cli
from mha_viz.cli import options as cli_common
from mha_viz.cli import server as cli_server
from mha_viz.plots import table_text
from mha_viz.reports.report import KEEP
from tests.cli.command import TEXT, call
from tests.making.comparing import near
from tests.making.hybrids import jamba


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return mv.load("tiny-gpt2").trace(TEXT)


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch):
    """Every call is a process of its own in real life; here the models may stay."""
    monkeypatch.setattr(loading, "load", functools.cache(loading.load))


def test_trace_json_is_for_programs():
    given = ("trace", TEXT, "--model", "tiny-bert", "--pair", "A dog ran")
    shown = json.loads(call(*given, "--json").stdout)
    pair = mv.load("tiny-bert").trace(TEXT, "A dog ran")
    n = len(pair.tokens)
    assert shown["shape"] == {"layers": 4, "heads": 8, "queries": n, "keys": n}
    assert [token["text"] for token in shown["tokens"]] == list(pair.labels)
    assert {token["segment"] for token in shown["tokens"]} == {0, 1}
    assert (shown["model"], shown["text_pair"]) == ("tiny-bert", "A dog ran")
    assert {fact["metric"] for fact in shown["facts"]} >= {"previous_token", "confidence"}


def test_trace_writes_a_record(record, tmp_path):
    out = tmp_path / "r.safetensors"
    done = call("trace", TEXT, "--out", str(out))
    assert f"wrote {out}" in done.stderr
    assert torch.equal(mv.AttentionRecord.load(out).pattern, record.pattern)


def test_layers_are_those_of_the_model_where_some_have_no_attention(monkeypatch):
    model = jamba()
    monkeypatch.setattr(loading, "load", lambda *_, **__: model)
    given = ("ba da fa ba da fa ka", "--model", "jamba")
    facts = json.loads(call("trace", *given, "--json").stdout)
    assert {fact["layer"] for fact in facts["facts"]} <= {3, 7} == set(facts["layer_numbers"])
    chosen = ("--layer", "7", "--head", "1")
    shown = json.loads(call("show", *given, *chosen, "--json").stdout)
    assert shown["layer"] == 7
    torch.testing.assert_close(torch.tensor(shown["weights"]), model.trace(given[0])[1, 1])
    refused = call("show", *given, "--layer", "1", "--head", "1", code=2)
    assert "layers with attention are 3, 7" in refused.stderr
    rows = json.loads(call("report", *given, "--no-baseline", "--json").stdout)["heads"]
    assert [row["layer"] for row in rows] == [3] * 4 + [7] * 4
    off = call("ablate", *given, "--heads", "7.1")
    assert "zero: L7 H1" in off.stdout


def test_show_csv_of_very_many_rows_is_written_after_an_answer(record, monkeypatch):
    show = ("show", TEXT, "-l", "1", "-H", "5", "-f", "csv")
    whole = call(*show).stdout
    n_rows = record.shape[2] * record.shape[3]
    monkeypatch.setattr(table_text, "MOST_UNASKED", n_rows - 1)
    refused = call(*show, code=2)
    assert f"has {n_rows} rows, about " in refused.stderr and "add --yes" in refused.stderr
    assert not refused.stdout
    assert call(*show, "--yes").stdout == whole
    with monkeypatch.context() as terminal:
        terminal.setattr(cli_common, "_is_asked", lambda: True)
        assert "Nothing was written" in call(*show, code=2, input="n\n").stderr
        assert call(*show, input="y\n").stdout.endswith(whole)


def test_show_csv_holds_every_weight_exactly(record):
    out = call("show", TEXT, "-l", "1", "-H", "5", "-f", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(out)))
    n = len(record.tokens)
    weights = torch.tensor([float(row["weight"]) for row in rows]).reshape(n, n)
    assert torch.equal(weights, record.pattern[1, 5])
    assert [row["key"] for row in rows[:n]] == list(record.labels)
    assert [int(row["query_position"]) for row in rows[::n]] == list(range(n))


def test_show_json_of_merged_words_without_special_tokens():
    out = call("show", TEXT, "-l", "-1", "-H", "-8", "-f", "json", "--words", "--no-special",
               "-m", "tiny-bert").stdout  # fmt: skip
    record = mv.load("tiny-bert").trace(TEXT)
    shown, expected = json.loads(out), record.merge_words().without_special()
    assert (shown["layer"], shown["head"], shown["merged"]) == (3, 0, True)
    assert [token["text"] for token in shown["tokens"]] == TEXT.split()
    assert torch.equal(torch.tensor(shown["weights"]), expected.pattern[3, 0])
    assert shown["removed_mass"] == near(float(expected.removed_mass[3, 0]))


def test_show_writes_every_picture_by_its_ending(tmp_path):
    for ending, start in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        for head in (("-l", "0", "-H", "1"), ()):  # one head, or all
            out = tmp_path / f"{len(head)}.{ending}"
            assert call("show", TEXT, *head, "--out", str(out), "--quiet").stderr == ""
            assert out.read_bytes().startswith(start)


def test_the_app_is_started_with_what_was_given(monkeypatch, tmp_path):
    started: list[list[str]] = []
    monkeypatch.setattr(streamlit, "main", started.append)
    monkeypatch.setattr(cli, "_app_script", lambda: tmp_path / "app.py")
    checked: list[tuple[str, int]] = []
    monkeypatch.setattr(cli_server, "check_free", lambda *place: checked.append(place))
    call("app")
    call("app", "--host", "0.0.0.0", "--port", "8123")
    call("app", "--host", "::1", env={"STREAMLIT_SERVER_PORT": "8124"})
    assert checked == [("127.0.0.1", 8501), ("0.0.0.0", 8123), ("::1", 8124)]
    run = ["run", str(tmp_path / "app.py")]
    assert started == [
        [*run, "--server.address", host, "--server.port", str(port)] for host, port in checked
    ]


def test_a_place_where_the_app_cannot_be_served_is_refused(monkeypatch):
    monkeypatch.setattr(streamlit, "main", lambda command: pytest.fail("it was started"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refusals = {
            ("--port", port): f"Port {port}",
            ("--port", "99999"): "99999",
            ("--port", "0"): "1..65535",
            ("--host", "192.0.2.1"): "Cannot assign requested address",  # of nobody (RFC 5737)
            ("--host", "ü..x"): "hostname",  # not a name that could be asked for
            ("--host", ""): "empty",
        }
        for arguments, message in refusals.items():
            done = call("app", *arguments, code=2)
            assert message in done.stderr and done.stdout == ""
            assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trace", " "), "text is empty"),
        (("trace", TEXT, "--model", "no/such"), "no/such"),
        (("trace", TEXT, "--pair", "x"), "one text"),
        (("trace", TEXT, "--part", "cross"), "self"),
        (("trace", "half \udce4"), "Unicode"),
        (("trace", TEXT, "-o", "/"), "a file"),
        (("show", TEXT, "-l", "4", "-H", "0"), "0..3"),
    ],
)
def test_errors_are_one_line(arguments, message):
    done = call(*arguments, code=2)
    assert done.stderr.startswith("error: ") and message in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


ROOT = Path(__file__).parents[2]


def process(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "mha_viz", *arguments]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, **pipes, **options)


@pytest.mark.slow
def test_a_real_process_writes_utf8_and_nothing_else():
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    arguments = ("show", "-", "-l", "0", "-H", "0", "-f", "csv")
    shown = process(*arguments, env=env, stdin=subprocess.PIPE)
    out, err = shown.communicate("naïve 👍 <b>".encode(), timeout=300)
    assert (shown.returncode, err) == (0, b"")
    assert "👍" in out.decode("utf-8")


@pytest.mark.slow
def test_a_real_interrupt():
    code = """
import os, signal, sys, time
from mha_viz.cli.main import main
# A shell that runs the tests in the background has made its children deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Waiting:
    def read(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
sys.stdin, sys.argv = Waiting(), ["mha-viz", "trace", "-"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


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
