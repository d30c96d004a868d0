"""One run of several texts and settings, against a plain run with hooks for each of them."""

import torch

from mha_viz.circuits.effects.patched_run import patch_cells, run_patched
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets
from mha_viz.text.encoding import encode_texts
from tests.circuits.plain_paths import PlainPaths, put
from tests.circuits.test_path_effect import predicting


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
