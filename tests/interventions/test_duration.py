"""Predicted durations of measuring against counted passes of tokens, not seconds."""

import pytest
from torch.nn.modules.module import register_module_forward_hook
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

import mha_viz as mv
from mha_viz.errors import TextError
from mha_viz.interventions.importance import (
    head_importance,
    importance_passes,
    n_tokens,
    pruning_passes,
    seconds_per_token,
)
from mha_viz.interventions.pruning import pruning_curve
from mha_viz.interventions.robustness import robustness

TEXTS = ["Once there was a little dog.", "The cat sat on the mat.", "Tom had a red ball."]


class Machine:
    """A clock that only computing moves on: by what each call of a layer costs, and each token.

    It counts the tokens of each call, too.
    """

    CALL, TOKEN = 5e-3, 1e-5  # seconds: a call costs as much as 500 tokens

    def __init__(self):
        self.now = 0.0
        self.tokens = []

    def __call__(self):
        return self.now

    def count(self, module, given, output):
        if isinstance(module, (GPT2Block, BertLayer)):
            tokens = given[0].shape[0] * given[0].shape[1]
            self.tokens.append(tokens)
            self.now += self.CALL + self.TOKEN * tokens


@pytest.fixture
def machine():
    made = Machine()
    hook = register_module_forward_hook(made.count)
    yield made
    hook.remove()


def test_pruning_takes_about_as_many_passes_as_it_is_said_to(gpt, machine):
    found = head_importance(gpt, TEXTS)
    machine.tokens.clear()
    for order in (found, "redundancy", "random"):
        pruning_curve(gpt, TEXTS, order, steps=8, n_seeds=5)
    robustness(gpt, TEXTS, 32, importance=found)
    said = pruning_passes(gpt, 1 + 1 + 5, 8, 32, measured=("ablation", "gradient"))
    passes = sum(machine.tokens) / (gpt.n_layers * n_tokens(gpt, TEXTS))
    assert passes == pytest.approx(said, rel=0.25)


MANY = [f"{text} Then {text.lower()}" for text in TEXTS] * 3


@pytest.mark.parametrize(
    ("name", "texts"), [("tiny-gpt2", TEXTS[:1]), ("tiny-bert", ["A dog.", *MANY])]
)
def test_the_estimate_is_what_the_work_takes_where_calls_cost_more_than_tokens(
    machine, name, texts
):
    model = mv.load(name)
    pace = seconds_per_token(model, texts, machine)
    said = pace * n_tokens(model, texts) * importance_passes(model, "ablation")
    machine.now = 0.0
    head_importance(model, texts)
    assert said == pytest.approx(machine.now, rel=0.35)


def test_a_text_with_nothing_to_predict_is_said(gpt):
    with pytest.raises(TextError, match="nothing to predict"):
        seconds_per_token(gpt, "a")
