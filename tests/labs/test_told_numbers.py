"""Numbers that texts of labs tell without a placeholder, beside the runs that they come from."""

import math
import re
from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.core.stored_runs import read
from mha_viz.learn.frame.contents import BY_KEY
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.how_heads_learn import numbers as learning
from mha_viz.learn.labs.induction_circuit import numbers as circuit
from mha_viz.learn.labs.shared_keys import numbers as sharing
from mha_viz.learn.start import numbers, story
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.report import KEEP, report


def told(module: object, name: str, pattern: str) -> list[float]:
    text = read_texts(module.__package__)(name)  # type: ignore[attr-defined]
    return [float(number.replace(",", "")) for number in re.search(pattern, text).groups()]  # type: ignore[union-attr]


def test_losses_of_lab_13_are_those_of_its_first_settings() -> None:
    found = circuit.find_circuit(mv.load(circuit.MODEL), circuit.N_WORDS[1], 0)
    rise = circuit.cuts(found).more[2]  # the best writer, cut from all readers
    losses = told(circuit, "loss.because", r"costs ([\d.]+) nats .* and ([\d.]+) in the second")
    assert losses == [pytest.approx(found.first_loss, abs=0.05), round(found.second_loss, 3)]
    assert told(circuit, "exit.because", r"rises by ([\d.]+) nats") == [round(float(rise), 1)]


def test_edges_of_lab_13_are_those_of_its_stored_run() -> None:
    found = read(circuit.STORED[0])
    lesson = next(one for one in BY_KEY["induction-circuit"].learned if "edges" in one)
    row = found.curve.set_index("edges").loc[found.size]
    for said in (lesson, Path("docs/circuits.md").read_text("utf-8")):
        size, of, share = re.search(r"(\d+) of ([\d,]+) edges carry\s(\d+) %", said).groups()  # type: ignore[union-attr]
        assert (int(size), int(of.replace(",", ""))) == (found.size, found.n_edges)
        assert int(share) == round(100 * row.faithfulness)
    assert f"that size carry {100 * row.random:.0f} %" in said


def test_chance_of_lab_14_is_that_of_its_stored_run() -> None:
    chance = read(sharing.STORED[0]).chance
    assert told(sharing, "alike.because", r"as close in (\d+) % of cases") == [round(100 * chance)]


def test_induction_of_lab_9_rises_as_it_says() -> None:
    film = read(learning.FILM)
    best = film.numbers["induction"].amax((1, 2)).tolist()
    low, high = told(learning, "sudden.because", r"below ([\d.]+) after .* above ([\d.]+)\n?.*half")
    assert best[len(best) // 4] < low and best[len(best) // 2] > high
    assert f"below {low:g}" in " ".join(BY_KEY["how-heads-learn"].learned)


def test_induction_of_the_first_page_is_told_apart_from_the_sentence() -> None:
    """Its score on random text is not the weight that the head has on the sentence."""
    model = mv.load(numbers.MODEL)
    record = model.trace(numbers.SENTENCE, keep=KEEP)
    steps = list(story.steps(numbers.follow(model, numbers.SENTENCE), report(record, model).labels))
    named = next(step["text"] for step in steps if step["key"] == "heads")
    said = {int(h): float(x) for h, x in re.findall(r"H(\d) ([\d.]+)", named)}
    assert "Induction, on random text (" in named
    probed = induction_scores(model).mean[1]
    assert said == {head: pytest.approx(float(probed[head]), abs=0.006) for head in said}
    half, n = 10, len(record.tokens)  # tokens of the second sentence look behind their first place
    pattern = record.pattern[1]
    ids = [token.id for token in record.tokens]
    rows = [(q, ids.index(ids[q]) + 1) for q in range(half, n) if ids[q] in ids[:half]]
    here = sum(pattern[:, q, k] for q, k in rows) / len(rows)
    assert not math.isclose(float(here[0]), said[0], abs_tol=0.05)
