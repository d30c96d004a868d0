"""Effects of edges: edge by edge against hooks on eager networks, and by what must hold."""

from dataclasses import replace

import pytest
import torch
from scipy import stats

from mha_viz.circuits.effects.edge_effects import edge_effects
from mha_viz.circuits.effects.edge_runs import EdgeRuns
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.circuits.tasks.task import Example
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.interventions.importance import agreement
from mha_viz.prediction.replay import Progress
from tests.circuits import networks
from tests.circuits.plain_edges import PlainEdges
from tests.circuits.test_path_effect import predicting

FAMILIES = ["gpt2", "llama", "gpt_neox"]
METRICS = ["logit_difference", "log_probability", "kl"]
SOME = [(name, 12) for name in FAMILIES]  # of the receivers; the last is the logits
ALL = [pytest.param(name, 1, marks=pytest.mark.extended) for name in FAMILIES]


def rounding(name: str) -> float:
    """Two of them take norms or rotate in float32, whatever their weights."""
    return 1e-10 if name == "gpt2" else 1e-4


def number(example: Example, metric: str, clean=None):
    """The metric by its definition, from (position, d_vocab)."""

    def of(logits):
        at = logits[example.position].double()
        log_p = at.log_softmax(-1)
        if metric == "logit_difference":
            return at[example.right] - at[example.wrong]
        if metric == "log_probability":
            return log_p[example.right]
        was = clean[example.position].double().log_softmax(-1)
        return (was.exp() * (was - log_p)).sum()

    return of


def close(found, expected, name):
    exists = torch.isfinite(expected)
    assert bool(found[exists].isfinite().all())
    largest = float(expected[exists].detach().abs().max())
    assert largest > 1e-3
    apart = float((found - expected.detach())[exists].abs().max())
    assert apart <= rounding(name) * max(1.0, largest)


def every_so_many(graph, every):
    """The edges into every so manyth receiver."""
    found = torch.zeros_like(graph.exists)
    found[:, ::every] = graph.exists[:, ::every]
    return found


def plain_scores(plain, task, chosen, graph, score):
    """Mean over pairs of score(example, receiver, changes of its senders); NaN elsewhere."""
    found = torch.full(chosen.shape, torch.nan, dtype=torch.float64)
    found[chosen] = 0.0
    for example in task.to_choose_on:
        clean, corrupt = (plain.noted(one.input_ids)[0] for one in (example.clean, example.corrupt))
        for j, receiver in enumerate(graph.receivers):
            senders = chosen[:, j].nonzero()[:, 0].tolist()
            if not senders:
                continue
            changes = [corrupt[graph.senders[i]] - clean[graph.senders[i]] for i in senders]
            values = score(example, receiver, changes)
            found[senders, j] += torch.tensor(values, dtype=torch.float64)
    return found / len(task.to_choose_on)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("name", "every"), [SOME[0], *ALL])
def test_edge_effects_exact_equals_hooks(name, every, metric):
    model = predicting(name, double=True)
    task = make_task(model, "induction", 4)
    if every == 1:
        found = edge_effects(model, task, "exact", metric)
        assert found.n_measured == found.n_edges == int(found.graph.exists.sum())
    else:
        found = edge_effects(model, task, "eap-ig", metric, steps=1)
        found.measure(7)
    plain = PlainEdges(model.network)

    def score(example, receiver, changes):
        ids = example.clean.input_ids
        with torch.no_grad():
            before = plain.run(ids)
            of = number(example, metric, before)
            now = [plain.run(ids, {receiver: lambda x, c=c: x + c}) for c in changes]
        return [float(of(logits) - of(before)) for logits in now]

    chosen = found.exact.isfinite()
    close(found.exact, plain_scores(plain, task, chosen, found.graph, score), name)


@pytest.mark.parametrize(
    ("method", "metric"),
    [("eap", "logit_difference"), ("eap-ig", "logit_difference"), ("eap-ig", "kl")],
)
@pytest.mark.parametrize(("name", "every"), [*SOME, *ALL])
def test_edge_effects_linear_equals_hooks(name, every, method, metric):
    model = predicting(name, double=True)
    task = make_task(model, "induction", 4)
    found = edge_effects(model, task, method, metric, steps=2, recompute=False)
    plain = PlainEdges(model.network)
    shares = [1.0] if method == "eap" else [0.25, 0.75]

    def score(example, receiver, changes):
        ids = example.clean.input_ids
        with torch.no_grad():
            of = number(example, metric, plain.run(ids))
        both = [plain.noted(one.input_ids)[0]["embedding"] for one in example[:2]]
        ways = [share * both[0] + (1 - share) * both[1] for share in shares]
        gradients = [plain.gradient(ids, receiver, of, way) for way in ways]
        mean = sum(gradients) / len(gradients)
        return [float((change * mean).sum()) for change in changes]

    close(
        found.estimate,
        plain_scores(plain, task, every_so_many(found.graph, every), found.graph, score),
        name,
    )


@pytest.mark.parametrize(("name", "every"), [SOME[0], *ALL])
def test_edge_effects_recomputed_multiplies_the_exact_change_of_z(name, every):
    model = predicting(name, double=True)
    task = make_task(model, "induction", 4)
    found = edge_effects(model, task, "eap")
    linear = edge_effects(model, task, "eap", recompute=False)
    plain = PlainEdges(model.network)

    def score(example, receiver, changes):
        words, ids = receiver.split(), example.clean.input_ids
        if words[-1] not in ("query", "key", "value"):
            return [torch.nan] * len(changes)
        layer, head = int(words[0][1:]), int(words[1][1:])
        own = slice(head * plain.d_head, (head + 1) * plain.d_head)
        gradient = plain.z_gradient(ids, layer, number(example, "logit_difference"))[..., own]
        clean, each = plain.noted(ids)[1][f"z {layer}"][..., own], []
        for change in changes:
            read = {}
            with torch.no_grad():
                plain.run(ids, {receiver: lambda x, c=change: x + c}, plain.noting({}, read))
            each.append(float(((read[f"z {layer}"][..., own] - clean) * gradient).sum()))
        return each

    expected = plain_scores(plain, task, every_so_many(found.graph, every), found.graph, score)
    of_heads = expected.isfinite()
    close(found.estimate, expected, name)
    assert torch.equal(found.estimate[:, -1], linear.estimate[:, -1])
    assert not torch.allclose(found.estimate[of_heads], linear.estimate[of_heads], rtol=0.01)


@pytest.mark.parametrize("name", [*FAMILIES, "gpt_neox untrained"])
def test_values_equals_hooks_of_any_choice_of_edges(name):
    name, _, untrained = name.partition(" ")
    model = predicting(name, double=True)
    for module in model.network.modules() if untrained else ():
        if isinstance(module, torch.nn.LayerNorm):  # both norms of a layer give the same numbers
            module.reset_parameters()
    task = make_task(model, "induction", 4)
    first, second, third, fourth = task.examples
    short = [  # the third pair without its first tokens, which both of its texts share
        replace(text, input_ids=text.input_ids[3:], tokens=text.tokens[3:]) for text in third[:2]
    ]
    third = third._replace(clean=short[0], corrupt=short[1], position=third.position - 3)
    task = replace(task, examples=(first, third, second, fourth))
    runs = EdgeRuns(model, task.examples, "logit_difference")
    assert [pairs.indices for pairs in runs.pairs] == [(0, 2, 3), (1,)]
    plain, graph = PlainEdges(model.network), runs.graph
    assert graph.parallel == plain.parallel
    generator = torch.Generator().manual_seed(3)
    some = graph.exists & (torch.rand(graph.exists.shape, generator=generator) < 0.4)
    found = runs.values(torch.stack([some, graph.exists, graph.exists & False]))
    kept = {(graph.senders[i], graph.receivers[j]) for i, j in some.nonzero().tolist()}
    for i, example in enumerate(task.examples):
        of = number(example, "logit_difference")
        ids = example.clean.input_ids, example.corrupt.input_ids
        expected = of(plain.circuit(*ids, kept, graph.receivers))
        close(found[:, i], torch.stack([expected, *(of(plain.run(one)) for one in ids)]), name)
    assert torch.allclose(found[1], runs.clean) and torch.allclose(found[2], runs.corrupt)


def test_measure_fills_in_the_strongest_and_goes_on_where_it_was_stopped():
    model = predicting("gpt2")
    found = edge_effects(model, make_task(model, "induction", 4))
    order = found.table()
    seen = []
    found.measure(5, lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 5) and seen[-1] == (5, 5) and found.n_measured == 5
    measured = found.table().query("known == 'measured'")
    assert set(zip(measured.sender, measured.receiver, strict=True)) == set(
        zip(order.sender[:5], order.receiver[:5], strict=True)
    )
    assert (measured.score == measured.exact).all()
    for row in measured.head(3).itertuples():
        kept = torch.ones(1, *found.exact.shape, dtype=torch.bool)
        kept[0, found.senders.index(row.sender), found.receivers.index(row.receiver)] = False
        changes = (found.runs.values(kept, Progress(None, 1)) - found.runs.clean)[0].numpy()
        ends = stats.t.interval(0.95, len(changes) - 1, changes.mean(), stats.sem(changes))
        assert (row.low, row.high) == pytest.approx(ends, abs=1e-4)
    assert found.table().query("known == 'estimate'")[["low", "high"]].isna().all(axis=None)
    found.measure(23)
    found.measure(0)
    assert found.n_measured == 23
    assert found.agreement == agreement(found.estimate, found.exact).rho > 0.5


@pytest.mark.parametrize("name", ["opt", "phi"])
def test_other_families_all_edges_kept_are_the_clean_run(name):
    model = networks.causal(name)
    task = make_task(model, "induction", 4)
    runs = EdgeRuns(model, task.examples, "logit_difference")
    assert runs.graph.parallel == (name == "phi")
    both = torch.stack([runs.graph.exists, runs.graph.exists & False])
    assert torch.allclose(runs.values(both)[0], runs.clean, atol=1e-5)
    assert torch.allclose(runs.values(both)[1], runs.corrupt, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_families_with_norms_behind_sums_are_refused(name):
    model = predicting("bert") if name == "bert" else networks.causal(name)
    with pytest.raises(AttentionUnavailableError):
        edge_effects(model, make_task(model, "induction", 4))


def test_a_factor_on_the_stream_is_refused(monkeypatch):
    model = predicting("gpt2")
    for layer in model.network.transformer.h:  # half of what the MLP gives reaches the stream
        layer.mlp.register_forward_hook(lambda module, given, output: output)
    proper = type(model.network.transformer.h[0]).forward

    def halved(self, hidden, *args, **kwargs):
        return proper(self, hidden * 0.5, *args, **kwargs)

    monkeypatch.setattr(type(model.network.transformer.h[0]), "forward", halved)
    with pytest.raises(AttentionUnavailableError):
        edge_effects(model, make_task(model, "induction", 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "acdc"}, "method .*'acdc'"),
        ({"metric": "loss"}, "metric .*'loss'"),
        ({"method": "eap", "metric": "kl"}, "kl"),
        ({"steps": 0}, "steps .* 0"),
        ({"steps": True}, "True"),
    ],
)
def test_edge_effects_refuses_wrong_arguments(options, message):
    model = predicting("gpt2")
    with pytest.raises(ArgumentError, match=message):
        edge_effects(model, make_task(model, "induction", 4), **options)


def test_a_pair_of_two_lengths_is_refused():
    model = predicting("gpt2")
    task = make_task(model, "induction", 4)
    pair = task.examples[0]
    short = replace(pair.corrupt, input_ids=pair.corrupt.input_ids[1:])
    task = replace(task, examples=(pair._replace(corrupt=short), *task.examples[1:]))
    with pytest.raises(ArgumentError, match="Pair 1 has"):
        edge_effects(model, task)
    with pytest.raises(ArgumentError, match="gpt2"):
        edge_effects(predicting("llama"), task)
    with pytest.raises(ArgumentError, match="top"):
        edge_effects(model, "induction").measure(-1)
