"""The command: what it prints, what it writes, and how it fails."""

import csv
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from streamlit.web import cli as streamlit
from typer.testing import CliRunner

import mha_viz as mv
from mha_viz import cli, cli_common
from mha_viz.capture import loading
from mha_viz.capture.report import KEEP
from tests.capture.families import build

TEXT = "The walking cat sat"
ROOT = Path(__file__).parents[1]


def call(*arguments: str, code: int = 0, **options):
    done = CliRunner().invoke(cli.app, arguments, **options)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace(TEXT)


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch):
    """Every call is a process of its own in real life; here the models may stay."""
    kept: dict[str, object] = {}

    def load(name: str):
        if name not in kept:
            kept[name] = _load(name)
        return kept[name]

    _load = loading.load
    monkeypatch.setattr(loading, "load", load)


# -- trace ---------------------------------------------------------------------------------------


def test_trace_tells_tokens_sizes_and_what_heads_do(record):
    out = call("trace", TEXT).stdout
    assert "4 layers x 8 heads" in out and " | ".join(record.labels) in out
    (line,) = [line for line in out.splitlines() if "Previous token" in line]
    values = torch.diagonal(record.pattern, -1, 2, 3).mean(-1)
    layer, head = divmod(int(values.argmax()), 8)
    assert line.split()[-3:] == [f"L{layer}", f"H{head}", f"{float(values.max()):.3f}"]


def test_trace_names_no_strongest_head_where_all_have_nothing():
    out = call("trace", TEXT, "--model", "tiny-gpt2").stdout
    assert "Previous token" in out and "Next token" not in out and "Special tokens" not in out


def test_trace_json_is_for_programs(record):
    shown = json.loads(call("trace", TEXT, "--pair", "A dog ran", "--json").stdout)
    pair = mv.load("tiny-bert").trace(TEXT, "A dog ran")
    n = len(pair.tokens)
    assert shown["shape"] == {"layers": 4, "heads": 8, "queries": n, "keys": n}
    assert [token["text"] for token in shown["tokens"]] == list(pair.labels)
    assert {token["segment"] for token in shown["tokens"]} == {0, 1}
    assert (shown["model"], shown["text_pair"]) == ("tiny-bert", "A dog ran")
    assert {fact["metric"] for fact in shown["facts"]} >= {"previous_token", "confidence"}


def test_trace_writes_a_record(record, tmp_path):
    out = tmp_path / "new" / "r.safetensors"
    done = call("trace", TEXT, "--out", str(out))
    assert f"wrote {out}" in done.stderr
    assert torch.equal(mv.AttentionRecord.load(out).pattern, record.pattern)


def test_text_comes_from_standard_input_too(record):
    assert "walk" in call("trace", "-", input=TEXT).stdout


def test_notes_go_to_the_other_stream():
    done = call("trace", "cat " * 300, "--json")
    assert "cut to 128 tokens" in json.loads(done.stdout)["notes"][0]
    assert done.stderr.startswith("note: The text was cut")


# -- show ----------------------------------------------------------------------------------------


def test_show_prints_the_strongest_pairs_first(record):
    out = call("show", TEXT, "--layer", "1", "--head", "5").stdout
    rows = [line.split() for line in out.splitlines()[3:]]
    weights = [float(row[-1]) for row in rows]
    assert len(rows) == 20 and weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(float(record.pattern[1, 5].max()), abs=1e-4)
    query, key = divmod(int(record.pattern[1, 5].argmax()), len(record.tokens))
    shown = [str(query), record.labels[query], str(key), record.key_labels[key]]
    assert rows[0][:-1] == shown
    assert "[CLS]" in out  # which a terminal library would take for markup


def test_show_csv_holds_every_weight_exactly(record):
    out = call("show", TEXT, "-l", "1", "-H", "5", "-f", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(out)))
    n = len(record.tokens)
    weights = torch.tensor([float(row["weight"]) for row in rows]).reshape(n, n)
    assert torch.equal(weights, record.pattern[1, 5])
    assert [row["key"] for row in rows[:n]] == list(record.labels)
    assert [int(row["query_position"]) for row in rows[::n]] == list(range(n))


def test_show_json_of_merged_words_without_special_tokens(record):
    out = call("show", TEXT, "-l", "-1", "-H", "-8", "-f", "json", "--words", "--no-special").stdout
    shown, expected = json.loads(out), record.merge_words().without_special()
    assert (shown["layer"], shown["head"], shown["merged"]) == (3, 0, True)
    assert [token["text"] for token in shown["tokens"]] == TEXT.split()
    assert torch.equal(torch.tensor(shown["weights"]), expected.pattern[3, 0])
    assert shown["removed_mass"] == pytest.approx(float(expected.removed_mass[3, 0]))


@pytest.mark.parametrize("head", [("--layer", "2", "--head", "3"), ()], ids=["a head", "all heads"])
def test_show_draws_pictures(tmp_path, head):
    png, svg, page = (tmp_path / f"p.{ending}" for ending in ("PNG", "svg", "html"))
    for file in (png, svg, page):  # the ending says the format
        call("show", TEXT, *head, "--out", str(file))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>") and "tiny-bert" in page.read_text()
    assert call("show", TEXT, *head, "-f", "png").stdout_bytes.startswith(b"\x89PNG")


def test_a_picture_does_not_go_to_a_terminal(monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    screen = Terminal(io.BytesIO())
    monkeypatch.setattr(cli.sys, "stdout", screen)
    with pytest.raises(mv.errors.ArgumentError, match="--out"):
        cli_common.deliver(b"\x89PNG", None)
    assert screen.buffer.getvalue() == b""


@pytest.mark.parametrize(
    "arguments", [("-f", "table"), ("-f", "csv"), ("-l", "1", "-f", "png"), ()]
)
def test_a_table_needs_a_head(arguments):
    assert "--layer and --head" in call("show", TEXT, *arguments, code=2).stderr


# -- report --------------------------------------------------------------------------------------


def reported(model: str = "tiny-bert", *texts: str, baseline: bool = True) -> pd.DataFrame:
    """What the library says of the same text."""
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
    out = call("report", TEXT, "--model", "tiny-gpt2").stdout
    table = reported("tiny-gpt2")
    assert out.startswith("tiny-gpt2 (gpt2), self attention: 4 layers x 8 heads")
    lines = [line for line in out.splitlines() if line.startswith(" L")]
    assert [line.split()[:2] for line in lines] == [
        [f"L{i}", f"H{j}"] for i in range(4) for j in range(8)
    ]
    for line, row in zip(lines, table.to_dict("records"), strict=True):
        assert line.split()[2:9] == [f"{row[key]:.3f}" for key in cli.printed.REPORT_COLUMNS]
        assert " ".join(line.split()[9:11]) == row["twin"]
        assert line.endswith(row["labels"])
        assert len(line.removesuffix(row["labels"])) <= 71  # leaves 100 columns room for two labels
    assert any("; " in line for line in lines)  # a head with two labels stays on its line
    (uniform,) = [line for line in out.splitlines() if "(uniform attention)" in line]
    assert uniform.split()[0] == f"{table.entropy_uniform[0]:.3f}"
    assert "(random weights, mean)" in out and "nan" not in out


def test_report_of_words_of_a_pair_and_without_baseline():
    pair = (TEXT, "A dog ran")
    words = mv.load("tiny-bert").trace(*pair, keep=KEEP).merge_words()
    done = call("report", TEXT, "--pair", pair[1], "--words", "-f", "csv")
    assert_same(read(done.stdout_bytes, "csv"), mv.head_report(words, loading.load("tiny-bert")))
    assert "note: Sub-words were merged first" in done.stderr
    bare = read(call("report", TEXT, "--no-baseline", "-f", "csv").stdout_bytes, "csv")
    assert not [name for name in bare if name.endswith("_random")]
    own = {"labels", "why", "induction", "induction_low", "induction_high"}  # from the probe
    assert own < set(bare)
    rest = reported(baseline=False)
    assert_same(
        bare[[name for name in bare if name not in own]], rest.drop(columns=["labels", "why"])
    )
    assert "random weights" not in call("report", TEXT, "--no-baseline").stdout


def test_report_of_cross_attention(monkeypatch):
    model = build("t5")
    monkeypatch.setattr(loading, "load", lambda name: model)
    texts = ("the cat sat on a mat", "a mat sat")
    arguments = ("report", texts[0], "--pair", texts[1], "--part", "cross")
    record = model.trace(*texts, part="cross", keep=KEEP)
    for more in ((), ("--no-baseline",)):  # neither has a random model here
        table = read(call(*arguments, "-f", "csv", *more).stdout_bytes, "csv")
        assert_same(table, mv.head_report(record, model))
        assert not {"induction", "distance", "self_token", "entropy_random"} & set(table)
    shown = call(*arguments).stdout
    assert "cross attention: 3 layers x 5 heads, 4 queries x 6 keys" in shown
    assert "induction" not in shown and "nan" not in shown


def test_report_says_what_is_not_defined(monkeypatch):
    table = reported(baseline=False).assign(twin=None)
    table["entropy"] = np.nan
    record = loading.load("tiny-bert").trace(TEXT)
    drawn = cli.printed.report(record, table, cli.ReportFormat.table)
    line = next(line for line in drawn.splitlines() if line.startswith(" L0 H0"))
    assert line.split()[2] == "–" and "nan" not in drawn and "None" not in drawn
    heads = json.loads(cli.printed.report(record, table, cli.ReportFormat.json))["heads"]
    assert heads[0]["entropy"] is None and heads[0]["twin"] is None


# -- models and the app --------------------------------------------------------------------------


def test_models_lists_what_loads_offline():
    out = call("models").stdout
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        ["tiny-bert", "shipped"],
        ["tiny-gpt2", "shipped"],
    ]
    listed = json.loads(call("models", "--json").stdout)
    assert [(model["name"], model["n_heads"]) for model in listed] == [
        ("tiny-bert", 8),
        ("tiny-gpt2", 8),
    ]
    assert all(Path(model["path"], "config.json").is_file() for model in listed)


def test_the_app_is_started_with_what_was_given(monkeypatch, tmp_path):
    started: list[list[str]] = []
    monkeypatch.setattr(streamlit, "main", started.append)
    monkeypatch.setattr(cli, "_app_script", lambda: tmp_path / "app.py")
    call("app")
    call("app", "--host", "0.0.0.0", "--port", "8123")
    run = ["run", str(tmp_path / "app.py")]
    assert started == [run, [*run, "--server.address", "0.0.0.0", "--server.port", "8123"]]


def test_the_app_is_found_inside_and_beside_the_package(monkeypatch, tmp_path):
    package = tmp_path / "mha_viz"
    package.mkdir()
    monkeypatch.setattr(cli, "__file__", str(package / "cli.py"))
    assert "install mha-viz again" in call("app", code=2).stderr
    (tmp_path / "app.py").touch()
    assert cli._app_script() == tmp_path / "app.py"
    (package / "webapp").mkdir()
    (package / "webapp" / "app.py").touch()
    assert cli._app_script() == package / "webapp" / "app.py"


# -- how it fails --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trace", " "), "text is empty"),
        (("trace", "-"), "text is empty"),
        (("trace", TEXT, "--model", "no/such"), "cannot be loaded without network"),
        (("trace", TEXT, "--model", "tiny-gpt2", "--pair", "x"), "takes one text"),
        (("trace", TEXT, "--part", "cross"), "has the part(s) self"),
        (("trace", "half \udce4"), "not valid Unicode"),
        (("report", ""), "text is empty"),
        (("report", TEXT, "--model", "no/such"), "cannot be loaded without network"),
        (("report", TEXT, "--part", "cross"), "has the part(s) self"),
        (("report", TEXT, "-o", "/no/such/folder/x.csv"), "No such file"),
        (("show", TEXT, "-l", "4", "-H", "0"), "layer must lie in 0..3, got 4"),
        (("show", TEXT, "-l", "0", "-H", "0", "-o", "/no/such/folder/x.csv"), "No such file"),
    ],
)
def test_errors_are_one_line(arguments, message):
    done = call(*arguments, code=2)
    assert done.stderr.startswith("error: ") and message in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", TEXT, "-l", "x"),
        ("show", TEXT, "-f", "pdf"),
        ("report", TEXT, "-f", "png"),
        ("no",),
    ],
)
def test_misuse_is_explained(arguments):
    assert "Usage" in call(*arguments, code=2).stderr


def test_a_bug_is_not_dressed_up(monkeypatch):
    def broken(name):
        raise ZeroDivisionError

    monkeypatch.setattr(loading, "load", broken)
    assert isinstance(CliRunner().invoke(cli.app, ["trace", TEXT]).exception, ZeroDivisionError)


def test_interrupting_ends_with_130(monkeypatch):
    def slow(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "load", slow)
    call("trace", TEXT, code=130)


def test_version_and_help():
    assert call("--version").stdout == f"mha-viz {mv.__version__}\n"
    out = call("--help").stdout
    assert all(name in out for name in ("app", "trace", "show", "report", "models"))
    assert "Usage" in CliRunner().invoke(cli.app, []).output


# -- real processes ------------------------------------------------------------------------------


def process(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "mha_viz", *arguments]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, **pipes, **options)


def test_help_and_version_do_not_wait_for_torch():
    code = (
        "import sys; from mha_viz.cli import main; sys.argv = ['mha-viz', 'HOW']\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end\n"
        "assert not {'torch', 'transformers', 'plotly', 'streamlit'} & set(sys.modules)"
    )
    for how in ("--help", "--version"):
        subprocess.run([sys.executable, "-c", code.replace("HOW", how)], check=True, timeout=30,
                       stdout=subprocess.DEVNULL, cwd=ROOT)  # fmt: skip


def test_a_real_process_writes_utf8_and_nothing_else():
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    arguments = ("show", "-", "-l", "0", "-H", "0", "-f", "csv")
    shown = process(*arguments, env=env, stdin=subprocess.PIPE)
    out, err = shown.communicate("naïve 👍 <b>".encode(), timeout=90)
    assert (shown.returncode, err) == (0, b"")
    assert "👍" in out.decode("utf-8")


def test_a_real_interrupt():
    code = """
import os, signal, sys, time
from mha_viz.cli import main
# A shell that runs the tests in the background has made its children deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Waiting:
    def read(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
sys.stdin, sys.argv = Waiting(), ["mha-viz", "trace", "-"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_reader_that_has_enough():
    shown = process("models", "--json")
    shown.stdout.close()
    err = shown.stderr.read()
    shown.stderr.close()
    shown.wait(timeout=90)
    assert b"Traceback" not in err
