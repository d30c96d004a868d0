"""The files of the chosen head: what a mask hides is no weight of 0 in them."""

import csv

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.amounts import of_bytes
from mha_viz.core.record.visible import visible_keys
from mha_viz.ui.state.views import View
from mha_viz.ui.widgets.exports import downloads
from tests.faults.disk import full_disk
from tests.making.comparing import close
from tests.ui.heads_app import heads_page


def test_the_files_hold_the_part_that_is_shown():
    record = mv.load("tiny-gpt2").trace("The cat sat on the mat.")
    view = View(layer=1, head=2, window=((3, 5), (0, 4)))
    lines = downloads.csv(record, view).decode("utf-8-sig").splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert rows[0][1:] == [f"{i}:{label}" for i, label in enumerate(record.key_labels[:5])]
    assert [row[0] for row in rows[1:]] == [f"{i}:{record.labels[i]}" for i in range(3, 6)]
    cells = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows[1:]])
    expected = record.head(1, 2).numpy()[3:6, :5].copy()
    expected[0, 4] = np.nan
    close(cells, expected)
    assert any("queries 3–5, keys 0–4" in line for line in lines)
    made = downloads.head_file(lambda weights, labels, **more: (weights, labels, more), view)(
        record
    )
    close(made[0], record.head(1, 2).numpy()[3:6, :5])
    assert made[1] == (list(record.labels[3:6]), list(record.key_labels[:5]))


def test_a_record_is_handed_out_where_the_disk_takes_nothing(tmp_path):
    record = mv.load("tiny-gpt2").trace("The cat sat.")
    record.save(tmp_path / "record")
    with full_disk(0):
        assert downloads._record_file(record) == (tmp_path / "record").read_bytes()


def test_csv_of_very_many_weights_is_offered_after_an_answer(monkeypatch):
    def files(app) -> list[str]:
        return [button.proto.label for button in app.get("download_button")]

    params = dict(text="The cat sat on the mat.", model="tiny-gpt2")
    app = heads_page(export=True, **params)
    assert "Head as CSV" in files(app) and not app.checkbox
    record = mv.load("tiny-gpt2").trace(params["text"])
    n = len(record.tokens)
    monkeypatch.setattr(downloads, "MOST_UNASKED", n * n - 1)
    app = heads_page(export=True, **params)
    assert "Head as CSV" not in files(app) and "PNG" in files(app)
    (question,) = app.checkbox
    app = question.check().run()
    assert "Head as CSV" in files(app)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_csv_confirmed_estimates_the_size_of_the_file(name, monkeypatch):
    record = mv.load(name).trace("The quick brown fox jumps over the lazy dog. " * 20)
    labels = []
    monkeypatch.setattr(downloads, "MOST_UNASKED", 0)
    monkeypatch.setattr(downloads.st, "checkbox", lambda label, **_: labels.append(label))
    assert not downloads._csv_confirmed(record, View(layer=1, head=2))
    number, unit = labels[0].rpartition("about ")[2].split()
    n_bytes = len(downloads.csv(record, View(layer=1, head=2)))
    assert unit == "kB" and 1000 * float(number) == pytest.approx(n_bytes, rel=0.2)
    monkeypatch.setattr(downloads, "CELL_BYTES", 0)
    downloads._csv_confirmed(record, View(layer=1, head=2))
    n_hidden = int((~visible_keys(record, 1)).sum())  # each takes the comma behind it
    assert labels[1].rpartition("about ")[2] == of_bytes(n_hidden)
