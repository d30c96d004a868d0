"""Patching maps: cell by cell against hooks on the eager model, and by what must be equal."""

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.effects import patching_map as module
from mha_viz.circuits.effects.activation_runs import ActivationRuns
from mha_viz.circuits.effects.experiment import as_run, patching_experiment
from mha_viz.circuits.effects.patched_run import patch_cells, run_patched
from mha_viz.circuits.effects.patching_map import PARTS, patching_map
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets
from mha_viz.text.encoding import encode_texts
from tests.circuits.plain_paths import PlainPaths, put
from tests.circuits.test_path_effect import CLEAN, CORRUPT, FAMILIES, asked, ids_of, predicting

BIRDS = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"


def longer(*values):
    return [pytest.param(value, marks=pytest.mark.extended) for value in values]


class PlainMap:
    """Activation patching by hooks, one plain pass for each cell."""

    def __init__(self, model, part, place):
        self.plain, self.part, self.place = PlainPaths(model.network), part, place
        modules = {"residual": self.plain.layers, "mlp": self.plain.mlps}
        self.modules = modules.get(part, self.plain.outputs)
        self.inputs = part.startswith("heads")  # z is what W_O reads
        self.words = model.tokenizer.convert_tokens_to_ids(["mat", "cat"])

    def noted(self, ids):
        """Note what each module gives (or reads), (position, width)."""
        found = [None] * len(self.modules)

        def hook(i):
            def keep(_module, arguments, output=None):
                found[i] = first(arguments if self.inputs else output)[0].clone()

            return self.modules[i], keep, self.inputs

        logits = self.plain.run(ids, *map(hook, range(len(found))))
        return found, logits

    def logits(self, ids, layer, rows, columns, other):
        """The logits with some rows and columns of a module's output (or input) replaced."""

        def changed(given):
            whole = first(given).clone()
            whole[0][rows, columns] = other[layer][rows, columns]
            return (whole, *given[1:]) if isinstance(given, tuple) else whole

        def hook(_module, arguments, output=None):
            return changed(arguments if self.inputs else output)

        return self.plain.run(ids, (self.modules[layer], hook, self.inputs))

    def number(self, logits):
        return float(logits[self.place][self.words[0]] - logits[self.place][self.words[1]])

    def cells(self, n_positions, n_heads):
        """Return the rows and columns of each cell of a layer."""
        width, everything = self.plain.d_head, slice(None)
        heads = [slice(head * width, (head + 1) * width) for head in range(n_heads)]
        rows = [slice(at, at + 1) for at in range(n_positions)]
        if self.part == "heads":
            return [(everything, columns) for columns in heads]
        if self.part == "heads_by_position":
            return [(row, columns) for columns in heads for row in rows]
        return [(row, everything) for row in rows]


def first(given):
    return given[0] if isinstance(given, tuple) else given


@pytest.mark.parametrize("direction", ["denoise", "noise"])
@pytest.mark.parametrize("part", [*PARTS[:-1], *longer(PARTS[-1])])
@pytest.mark.parametrize("name", ["gpt2", *longer("llama", "gpt_neox", "bert")])
def test_every_cell_is_that_of_hooks_on_the_eager_model(name, part, direction):
    model = predicting(name, double=True)
    options = asked(model)
    found = patching_map(model, CLEAN, CORRUPT, "logit_difference", part, direction, **options)
    place = options["position"]
    plain = PlainMap(model, part, -1 if place is None else place)
    texts = [ids_of(model, text, place) for text in (CLEAN, CORRUPT)]
    into, source = texts[::-1] if direction == "denoise" else texts
    (_, before), (other, after) = plain.noted(into), plain.noted(source)
    cells = plain.cells(len(into), model.n_heads)
    expected = np.array(
        [
            [plain.number(plain.logits(into, layer, *cell, other)) for cell in cells]
            for layer in range(model.n_layers)
        ]
    )
    # Llama and GPT-NeoX rotate in float32, whatever their weights.
    rounding = 1e-5 if name in ("llama", "gpt_neox") else 1e-10
    effect = expected - plain.number(before)
    np.testing.assert_allclose(found.effect.reshape(effect.shape), effect, atol=rounding)
    difference = plain.number(after) - plain.number(before)
    assert abs(found.difference - difference) <= rounding
    np.testing.assert_allclose(found.share, found.effect / difference, atol=rounding)
    changed = np.abs(effect) > 1e-6
    assert changed.any(-1).all() and (found.effect[found.effect != 0].size >= changed.sum())
    table = found.table()
    assert table.effect.tolist() == found.effect.ravel().tolist()
    axes = [name for name in ("layer", "head", "position") if name in table]
    row = table.iloc[len(table) // 2]
    assert found.effect[tuple(row[axes].astype(int))] == row.effect
    if "position" in table:
        assert row.token == found.tokens[row.position]
        assert row.corrupt_token == found.corrupt_tokens[row.position]


@pytest.mark.parametrize("name", FAMILIES)
def test_residual_stream_patched_at_all_positions_gives_the_other_run(name):
    model = predicting(name)
    options = asked(model)
    runs = patching_experiment(*(model, CLEAN, CORRUPT, "logit_difference"), **options).runs
    other = as_run(model, CORRUPT, runs.targets.positions[0][0])[0]
    patched = ActivationRuns(
        model, runs.targets, module.replace(runs.targets, rows=(other,)), "residual"
    )
    assert (patched.logits - patched.other_logits).abs().max() > 1e-3
    everything = torch.ones(1, 1, len(other.tokens), dtype=torch.bool)
    for layer in range(model.n_layers):
        logits = patched.patched(layer, everything)[0]
        torch.testing.assert_close(logits, patched.other_logits, atol=2e-5, rtol=0)


@pytest.mark.parametrize("direction", ["denoise", "noise"])
@pytest.mark.parametrize("metric", ["logit", "loss", "kl"])
def test_other_behaviours_by_the_runs_that_they_compare(metric, direction):
    model = predicting("gpt2", double=True)
    found = patching_map(model, CLEAN, CORRUPT, metric, direction=direction)
    ids = [torch.tensor([ids_of(model, text, None)]) for text in (CLEAN, CORRUPT)]
    with torch.no_grad():
        clean, corrupt = (model.network(one).logits[0].double().log_softmax(-1) for one in ids)
    loss = torch.nn.functional.nll_loss
    target = model.tokenizer.convert_tokens_to_ids(found.target) if metric == "logit" else 0
    expected = {
        "loss": [loss(one[:-1], ids[0][0, 1:]) for one in (clean, corrupt)],
        "kl": [0.0, (clean[-1].exp() * (clean[-1] - corrupt[-1])).sum()],
        "logit": [model.network(one).logits[0, -1, target] for one in ids],
    }[metric]
    assert [found.clean, found.corrupt] == pytest.approx([float(one) for one in expected])
    assert found.share[-1, -1] == pytest.approx(1) or metric == "loss"
    if metric == "loss":  # each position answers for the token after it
        assert found.share[-1].sum() == pytest.approx(1)


def test_equal_texts_have_no_effect_and_the_share_is_refused(gpt):
    found = patching_map(gpt, BIRDS[0], BIRDS[0], target="cat", against="dog")
    assert not found.effect.any() and found.difference == 0
    assert found.refusal and "share" not in found.table()
    with pytest.raises(ArgumentError):
        _ = found.share


def test_map_names_tokens_and_reports_progress_until_it_is_stopped(gpt):
    told = []
    found = patching_map(
        gpt, *BIRDS, target="cat", against="dog", on_progress=lambda *news: told.append(news)
    )
    # Before the word that differs both runs are the same, at which nothing is to be measured.
    n_cells = gpt.n_layers * (len(found.tokens) - 4)
    assert told[0] == (0, n_cells) and told[-1] == (n_cells, n_cells)
    assert not found.effect[:, :4].any() and not found.refusal
    assert found.positions[4] == f"{found.tokens[4]} / {found.corrupt_tokens[4]}"
    assert found.positions[3] == found.tokens[3]

    def stop(done, total):
        if done:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        patching_map(gpt, *BIRDS, on_progress=stop)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(part="all"), ArgumentError, "part"),
        (dict(direction="back"), ArgumentError, "direction"),
        (dict(corrupt=["the cat"]), ArgumentError, "one corrupted text"),
        (dict(corrupt="the cat sat"), TextError, "tokens"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(models, change, error, message):
    with pytest.raises(error, match=message):
        mv.patching_map(models["gpt2"], **(dict(clean=CLEAN, corrupt=CORRUPT) | change))


def test_too_many_cells_are_refused_before_they_are_run(models, monkeypatch):
    monkeypatch.setattr(module, "MAX_CELLS", 17)
    with pytest.raises(ArgumentError, match="shorter"):
        patching_map(models["gpt2"], CLEAN, CORRUPT, part="heads_by_position")


def test_run_patched_gives_each_text_and_setting_what_hooks_give():
    model = predicting("gpt2", double=True)
    texts = "the cat sat on a mat", "a dog ran on the mat"
    rows = tuple(encode_texts(model.reader, text)[0] for text in texts)
    targets = PredictionTargets(rows, (0, 1), ((5,), (3,)), ((0,), (0,)), 2)
    plain, generator = PlainPaths(model.network), torch.Generator().manual_seed(3)
    width, head, place = plain.d_head, 3, 2
    key, z = torch.randn(2, 1, 2, 1, 6, width, generator=generator).double()  # one value a text
    mlp = torch.randn(1, 2, 1, 6, model.d_model, generator=generator).double()
    on = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]]).bool()  # setting, patch
    of_head = torch.zeros(1, 1, model.n_heads, 1, dtype=torch.bool)
    of_head[:, :, head] = True
    at_place = (torch.arange(6) == place)[None, None, None]
    patches = [
        patch_cells(1, "key", key, on[:, 0, None, None, None] & of_head),
        patch_cells(0, "transformer.h.0.mlp", mlp, on[:, 1, None, None, None] & at_place),
        patch_cells(2, "z", z, on[:, 2, None, None, None] & of_head),
    ]
    with torch.no_grad():
        logits = run_patched(ReplayingPass(model, targets), len(on), patches)
    columns, keys = (
        slice(start + head * width, start + (head + 1) * width) for start in (0, model.d_model)
    )
    outputs = []
    for row, text in enumerate(rows):
        output = plain.noted(text.input_ids)[1][0].clone()
        hooks = [put(plain.parts[1][2][1], key[0, row, 0], keys), None]
        hooks.append(put(plain.outputs[2], z[0, row, 0], columns, inputs=True))
        for setting in on.tolist():
            # The MLP's other positions stay; nothing earlier changes what they read.
            output[0, place] = mlp[0, row, 0, place]
            hooks[1] = put(plain.mlps[0], output)
            chosen = [hook for hook, used in zip(hooks, setting, strict=True) if used]
            outputs.append(plain.run(text.input_ids, *chosen)[targets.positions[row][0]])
    expected = torch.stack(outputs).unflatten(0, (2, len(on))).transpose(0, 1)
    torch.testing.assert_close(logits, expected, atol=1e-10, rtol=0)
    assert all((logits[i] - logits[3]).abs().amax() > 1e-3 for i in range(3))
