"""How much some heads carry: against hooks on the eager model, the search, the file."""

import json
import statistics
from dataclasses import replace

import pytest
import scipy.stats

from mha_viz.circuits.faithfulness import Faithfulness, faithfulness, find_heads
from mha_viz.circuits.tasks import make_task
from mha_viz.core.metrics.labels import LABELS
from mha_viz.errors import ArgumentError, RecordError, WriteError
from mha_viz.prediction import replay
from mha_viz.reports.induction import induction_scores
from tests.circuits.plain_paths import PlainPaths, put
from tests.circuits.test_path_effect import predicting
from tests.faults.disk import full_disk

CHOICE = [(0, 3), (1, 0), (2, 4)]


def plain_value(plain: PlainPaths, task, kept: set) -> float:
    """The behaviour by its definition, text by text, with every head outside `kept` at its mean."""
    n = plain.d_head
    runs = [plain.noted(text.input_ids)[0] for text in task.others]
    means = [sum(layers) / len(runs) for layers in zip(*runs, strict=True)]
    hooks = []
    for layer, module in enumerate(plain.outputs):
        for head in range(plain.n_heads):
            if (layer, head) not in kept:
                own = slice(head * n, (head + 1) * n)
                hooks.append(put(module, means[layer][..., own], own, inputs=True))
    values = []
    for clean, _, place, right, wrong in task.examples:
        logits = plain.run(clean.input_ids, *hooks)[place]
        values.append(float(logits[right] - logits[wrong]))
    return sum(values) / len(values)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_the_behaviour_is_that_of_hooks_on_the_eager_model(name):
    model = predicting(name, double=True)
    task = make_task(model, "induction", 3)
    found = faithfulness(model, task, CHOICE, n_random=2)
    plain = PlainPaths(model.network)
    every = {(layer, head) for layer in range(3) for head in range(5)}
    expected = {
        "whole": every,
        "nothing": set(),
        "alone": set(CHOICE),
        "missing": every - set(CHOICE),
    }
    for field, kept in expected.items():
        assert getattr(found, field) == pytest.approx(plain_value(plain, task, kept), abs=1e-9)
    assert len({found.whole, found.nothing, found.alone, found.missing}) == 4


@pytest.mark.parametrize("name", ["llama", "albert", "gpt_neox", "modernbert"])
def test_small_passes_change_nothing(name, monkeypatch):
    model = predicting(name, double=True)
    task = make_task(model, "induction", 5)
    whole = faithfulness(model, task, [(0, 3), (2, 4)], n_random=3)
    monkeypatch.setattr(replay, "MAX_TOKENS", 60)
    told = []
    parts = faithfulness(model, task, [(0, 3), (2, 4)], lambda *done: told.append(done), n_random=3)
    for field in ("whole", "nothing", "alone", "missing", "random_alone", "random_missing"):
        assert getattr(parts, field) == pytest.approx(getattr(whole, field), abs=1e-6)
    assert told[0] == (0, 50) and told[-1] == (50, 50) and told == sorted(told)


def test_shares_and_the_interval_of_random_choices(gpt):
    found = faithfulness(gpt, make_task(gpt, "agreement", 3), [(0, 0), (3, 0)], n_random=4)
    assert found.share(found.whole) == 1 and found.share(found.nothing) == 0
    table = found.table().set_index("heads")
    mean, error = statistics.fmean(found.random_alone), scipy.stats.sem(found.random_alone)
    low, high = scipy.stats.t.interval(0.95, 3, loc=mean, scale=error)
    row = table.loc["as many at random, alone"]
    assert (row.low, row.high) == pytest.approx((found.share(low), found.share(high)))
    assert table.loc["the choice alone"].share == found.share(found.alone)
    assert "2 of 32 heads" in repr(found) and "<table" in found._repr_html_()
    assert str(replace(found, nothing=found.whole + 1).share(1.0)) == "nan"
    assert faithfulness(gpt, make_task(gpt, "agreement", 3), [(0, 0), (3, 0)], n_random=4) == found


# -- the search ------------------------------------------------------------------------------------


def test_the_induction_heads_that_the_search_finds_are_those_of_the_label(gpt):
    found = find_heads(gpt, make_task(gpt, "induction", 5))
    scores, label = induction_scores(gpt).mean, LABELS["induction"]
    labelled = {tuple(head) for head in (scores >= label.threshold).nonzero().tolist()}
    assert labelled and all(layer > 0 for layer, _ in labelled)  # they read a layer before them
    reading = [head for head in found.order if head[0] > 0]
    assert set(reading[: len(labelled)]) == labelled
    assert {head for head in found.heads if head[0] > 0} <= labelled
    weights = gpt.trace("the cat sat on the mat and the dog ran to the house").pattern[0]
    previous = weights.diagonal(-1, 1, 2).mean(-1)
    assert {(0, int(head)) for head in (previous > 0.9).nonzero()} < set(found.heads)
    tested = faithfulness(gpt, make_task(gpt, "induction", 5, seed=1), found.heads, n_random=5)
    assert tested.share(tested.alone) > 0.75 and tested.share(tested.missing) < 0.15
    random = tested.table().set_index("heads").loc["as many at random, alone"]
    assert tested.share(tested.alone) > random.high


def test_the_search_ranks_by_effect_and_takes_the_first(gpt):
    task = make_task(gpt, "closing", 3)
    found = find_heads(gpt, task, enough=0.5)
    effects = [float(found.effect[head]) for head in found.order]
    assert effects == sorted(effects, reverse=True) and len(set(found.order)) == 32
    n = len(found.heads)
    assert found.heads == found.order[:n] and found.share[n] >= 0.5 > max(found.share[:n])
    one = faithfulness(gpt, task, found.heads, n_random=2)
    assert found.share[n] == pytest.approx(one.share(one.alone), abs=1e-4)
    alone = faithfulness(gpt, task, found.order[:1], n_random=2)
    assert effects[0] == pytest.approx(alone.whole - alone.missing, abs=1e-4)


# -- the file --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(gpt):
    return faithfulness(gpt, make_task(gpt, "agreement", 2), [(3, 0), (0, 1)], n_random=2)


def test_a_file_opens_again(saved, tmp_path):
    saved.save(tmp_path / "circuit.json")
    assert Faithfulness.load(tmp_path / "circuit.json") == saved
    assert (tmp_path / "circuit.json").stat().st_size < 2000
    with full_disk(0):
        assert Faithfulness.from_bytes(saved.to_bytes(), "a file") == saved
    with pytest.raises(WriteError):
        saved.save(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "something else"},
        {"extra": 1},
        {"heads": [[9, 0]]},
        {"heads": []},
        {"heads": [[0, 1], [0, 1]]},
        {"heads": [[0, 1.5]]},
        {"heads": "all"},
        {"whole": "much"},
        {"whole": float("nan")},
        {"whole": float("inf")},
        {"n_layers": True},
        {"n_heads": -1},
        {"seed": 10**30},
        {"model": "x" * 1000},
        {"task": None},
        {"random_alone": [1.0]},
        {"random_alone": [1.0, None]},
        {"random_missing": {}},
    ],
)
def test_a_file_of_somebody_is_checked(saved, tmp_path, change):
    path = tmp_path / "circuit.json"
    saved.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordError, match="not a circuit that can be opened here"):
        Faithfulness.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10**5, b" " * 10**6 + b"{}"]
)
def test_what_is_no_circuit_at_all(tmp_path, content):
    (tmp_path / "circuit.json").write_bytes(content)
    with pytest.raises(RecordError, match="not a circuit that can be opened here"):
        Faithfulness.load(tmp_path / "circuit.json")
    with pytest.raises(RecordError, match="No such file"):
        Faithfulness.load(tmp_path / "none.json")


# -- what cannot be --------------------------------------------------------------------------------


def test_what_cannot_be_tested(gpt, masked):
    task = make_task(gpt, "agreement", 2)
    every = [(layer, head) for layer in range(4) for head in range(8)]
    for heads in ([], every, [(0, 1), (0, 1)]):
        with pytest.raises(ArgumentError, match="at least one head, each once, and not all"):
            faithfulness(gpt, task, heads)
    with pytest.raises(ArgumentError, match="has no L4 H0"):
        faithfulness(gpt, task, [(4, 0)])
    with pytest.raises(ArgumentError, match="must be \\(layer, head\\) pairs"):
        faithfulness(gpt, task, [(0,)])
    with pytest.raises(ArgumentError, match="was made for tiny-gpt2"):
        faithfulness(masked, task, [(0, 1)])
    with pytest.raises(ArgumentError, match="n_random"):
        faithfulness(gpt, task, [(0, 1)], n_random=1)
    for enough in (0, 1.5):
        with pytest.raises(ArgumentError, match="enough must lie"):
            find_heads(gpt, task, enough)
