"""Lab 13's numbers, beside hooks on transformers' own model and other ways to the same number."""

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.learn.labs.induction_circuit import numbers as lab
from tests.circuits.plain_paths import PlainPaths, note, put

N = 7


@pytest.fixture(scope="module")
def model():
    return mv.load(lab.MODEL)


@pytest.fixture(scope="module")
def found(model):
    return lab.find_circuit(model, N, 3)


def loss_of(logits, ids):
    """Average the loss of the second copy without its first word, in nats and double precision."""
    log_p = logits[:-1].double().log_softmax(-1)
    of_each = -log_p[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    return float(of_each[-(N - 1) :].mean())


def ids_of(found):
    return [token.id for token in found.record.tokens]


def test_the_text_is_said_twice_and_its_loss_is_the_models_own(model, found):
    ids = ids_of(found)
    assert found.start == 0 and ids[:N] == ids[N:] and len(set(ids)) == N
    logits = PlainPaths(model.network).run(ids)
    assert found.second_loss == pytest.approx(loss_of(logits, ids), abs=1e-4)
    log_p = logits[:-1].double().log_softmax(-1)
    of_each = -log_p[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    np.testing.assert_allclose(found.losses, of_each, atol=1e-4)
    assert found.first_loss == pytest.approx(float(of_each[: N - 1].mean()), abs=1e-4)
    assert found.second_loss < found.first_loss / 4  # what the lab is about


def test_the_heads_are_those_of_the_labels(model, found):
    report = mv.head_report(model.trace(found.text)).set_index(["layer", "head"])
    writers = report.previous_token[report.previous_token >= lab.FOUND]
    writers = writers[writers.index.get_level_values("layer") < found.readers[0][0]]
    assert found.writers == tuple(writers.sort_values(ascending=False).index)
    layer, _ = found.readers[0]
    assert found.readers[0] == np.unravel_index(int(found.induction.argmax()), (4, 8))
    assert {head for _, head in found.readers} == set(
        np.flatnonzero(found.induction[layer] >= lab.FOUND)
    )


def test_a_pair_is_ranked_among_all(model, found):
    writer, reader = found.writers[0], found.readers[0]
    ranked = lab.rank_pair(model, writer, reader)
    z = ranked.composition.zscore
    mine = z[writer[0] * 8 + writer[1], reader[0] * 8 + reader[1]]
    assert ranked.rank == 1 + int((z[~z.isnan()] > mine).sum())
    block = z[writer[0] * 8 :][:8, reader[0] * 8 :][:, :8]
    assert ranked.rank_between == 1 + int((block > mine).sum())
    assert ranked.total == int((~z.isnan()).sum()) == 6 * 64
    assert ranked.rank_between == 1  # as the lab's picture shows
    block = z[:8, 24:].flatten()  # of the first layer and the last
    ranks = [lab.rank_pair(model, (0, 1), (3, head)).rank_between for head in (2, 5)]
    assert ranks == [1 + int((block > z[1, 24 + head]).sum()) for head in (2, 5)]


def test_why_a_word_looks_behind_its_first_place(model, found):
    """The scores that the run itself used, and nothing left but rounding."""
    word, reader = 2, found.readers[0]
    score = lab.score_difference(model, found, reader, word)
    assert (score.query, score.key, score.versus) == (N + word, word + 1, word)
    table = lab.by_key_component(score)
    assert table.share.sum() == pytest.approx(score.value, abs=1e-4)
    weights = found.record.head(*reader)[score.query]  # scores are log-weights but for a constant
    apart = float((weights[score.key] / weights[score.versus]).log())
    assert apart == pytest.approx(score.value, abs=1e-3)


def test_many_paths_at_once_are_those_of_hooks_on_the_eager_model(model, found):
    plain, ids = PlainPaths(model.network), ids_of(found)
    z, mlps = plain.noted(ids)
    heads = [slice(head * 32, (head + 1) * 32) for _, head in found.writers]
    hooks = [put(module, z[i], inputs=True) for i, module in enumerate(plain.outputs)]
    hooks += [put(module, mlps[i]) for i, module in enumerate(plain.mlps)]
    other = z[0].clone()
    for (_, head), columns in zip(found.writers, heads, strict=True):
        other[..., columns] = found.experiment.runs.other[0, head, 0]
    hooks.append(put(plain.outputs[0], other, inputs=True))
    layer = found.readers[0][0]
    heard, module = [None], plain.parts[layer][2][1]
    plain.run(ids, *hooks, note(module, heard, 0))
    keys = [
        put(module, heard[0][..., start : start + 32], slice(start, start + 32))
        for start in (plain.column(1, head) for _, head in found.readers)
    ]
    expected = loss_of(plain.run(ids, *keys), ids)
    assert lab.loss_with_cut(found, list(found.writers), list(found.readers)) == pytest.approx(
        expected, abs=1e-3
    )


def test_cuts_are_the_losses_of_the_heads_that_they_name_and_one_reader_is_made_up_for(found):
    writers, readers = list(found.writers), list(found.readers)
    others = [(writers[0][0], head) for head in range(8) if (writers[0][0], head) not in writers]
    expected = [
        found.second_loss,
        lab.loss_with_cut(found, writers[:1], readers[:1]),
        lab.loss_with_cut(found, writers[:1], readers),
        lab.loss_with_cut(found, writers, readers),
        lab.loss_with_cut(found, writers[:1], readers, "query"),
        lab.loss_with_cut(found, others, readers),
    ]
    table = lab.cuts(found)
    assert table.loss.tolist() == pytest.approx(expected)
    nothing, one, every, *_, others_alone = table.more
    assert table.more.tolist() == pytest.approx([loss - expected[0] for loss in expected])
    assert nothing == 0 and abs(one) < 0.1 * every and every > 1 > 10 * abs(others_alone)
    by_sender = lab.cut_by_sender(found)
    assert len(by_sender.more) == 8
    assert (0, int(by_sender.more.argmax())) == found.writers[0]
    assert by_sender.more[found.writers[0][1]] == pytest.approx(every)
