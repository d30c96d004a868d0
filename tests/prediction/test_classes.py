"""Classifiers: predicted classes, changed heads and attribution against the network's own."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.making.checkpoints import OTHER, TEXT, WORDS, save, spread, tokenizer
from tests.making.comparing import close

register()
LABELS = ["bad", "so-so", "good", "better", "best"]
TEXTS = [TEXT, OTHER, f"{OTHER} {TEXT}"]  # of different lengths
LAYERS, HEADS, D_MODEL = 3, 5, 35
SIZES = dict(num_hidden_layers=LAYERS, num_attention_heads=HEADS, hidden_size=D_MODEL)
KINDS = ("bert", "gpt2", "llama")


def network(kind: str, **options) -> tf.PreTrainedModel:
    torch.manual_seed(7)
    names = dict(enumerate(LABELS))
    shared = dict(vocab_size=len(WORDS), id2label=names, label2id={v: k for k, v in names.items()})
    shared |= options
    if kind == "gpt2":
        sizes = dict(n_embd=D_MODEL, n_layer=LAYERS, n_head=HEADS, n_positions=41)
        config = tf.GPT2Config(**sizes, **shared)
        made = tf.GPT2ForSequenceClassification
    elif kind == "llama":
        sizes = SIZES | dict(hidden_size=30, intermediate_size=37, num_key_value_heads=1)
        config = tf.LlamaConfig(max_position_embeddings=41, **sizes, **shared)
        made = tf.LlamaForSequenceClassification
    else:
        config = tf.BertConfig(max_position_embeddings=41, intermediate_size=37, **SIZES, **shared)
        made = tf.BertForSequenceClassification
    config._attn_implementation = IMPLEMENTATION
    return spread(made(config)).eval().requires_grad_(False)


def classifier(kind: str, **options) -> AttentionModel:
    made = network(kind, **options)
    return AttentionModel(made, tokenizer(pairs=kind == "bert"), name=kind)


def own_logits(model: AttentionModel, text: str) -> torch.Tensor:
    known = model.tokenizer(text, return_tensors="pt")
    names = ("input_ids", "attention_mask")
    return model.network(**{name: known[name] for name in names}).logits[0]


def gated(model: AttentionModel, text: str, gates: torch.Tensor) -> torch.Tensor:
    """The network's own logits, with a hook that multiplies what W_O reads."""
    name = {"bert": "attention.output.dense", "gpt2": "attn.c_proj", "llama": "self_attn.o_proj"}
    paths = [m for path, m in model.network.named_modules() if path.endswith(name[model.name])]
    assert len(paths) == LAYERS

    def hook(factors: torch.Tensor):
        return lambda module, given: (
            (given[0].unflatten(-1, (HEADS, -1)) * factors[:, None]).flatten(-2),
        )

    handles = [m.register_forward_pre_hook(hook(g)) for m, g in zip(paths, gates, strict=True)]
    try:
        return own_logits(model, text)
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_classes_are_the_networks_own_softmax_with_and_without_a_head(kind):
    model, gates = classifier(kind), torch.ones(LAYERS, HEADS)
    found = mv.ablate(model, TEXT, [(1, 3)], target="good", against=0, top_k=2)
    gates[1, 3] = 0
    before = own_logits(model, TEXT).log_softmax(-1)
    after = gated(model, TEXT, gates).log_softmax(-1)
    assert float((before - after).abs().max()) > 1e-3
    close(found.before.log_probs, before)
    close(found.after.log_probs, after)
    close(found.target.change, float(after[2] - before[2]))
    close(found.logit_difference_after, float(after[2] - after[0]))
    assert found.before.candidates == tuple(LABELS[i] for i in before.topk(2).indices)
    n = len(found.before.tokens)
    assert found.before.objective == "class"
    assert found.before.position == (0 if kind == "bert" else n - 1)
    with pytest.raises(ArgumentError, match="one of 5 classes"):
        mv.ablate(model, TEXT, [(1, 3)], target="the")
    with pytest.raises(ArgumentError, match="leave out position"):
        mv.predict(model, TEXT, position=1)


@pytest.mark.parametrize(
    ("kind", "padding"), [("bert", 0), ("gpt2", 0), ("gpt2", None), ("llama", 0), ("llama", None)]
)
def test_importance_is_the_loss_of_the_label_through_a_gate(kind, padding):
    model, labels = classifier(kind, pad_token_id=padding), ["bad", 4, "good"]
    numbers = [0, 4, 2]
    ablation = mv.head_importance(model, TEXTS, labels=labels)
    gradient = mv.head_importance(model, TEXTS, "gradient", labels=labels)
    for i, (text, number) in enumerate(zip(TEXTS, numbers, strict=True)):
        gates = torch.ones(LAYERS, HEADS, requires_grad=True)
        loss = -gated(model, text, gates).log_softmax(-1)[number]
        close(gradient.values[i], torch.autograd.grad(loss, gates)[0].abs())
        close(ablation.loss[i], float(loss.detach()))
        off = torch.ones(LAYERS, HEADS)
        off[2, 1] = 0
        change = -gated(model, text, off).log_softmax(-1)[number] - loss.detach()
        close(float(ablation.values[i, 2, 1]), float(change))
    own = [int(own_logits(model, text).argmax()) for text in TEXTS]
    taken = mv.head_importance(model, TEXTS), mv.head_importance(model, TEXTS, labels=own)
    assert torch.equal(taken[0].values, taken[1].values)
    with pytest.raises(ArgumentError, match="one for each of 3 texts"):
        mv.head_importance(model, TEXTS, labels=["bad"])


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_attribution_of_a_class_sums_to_its_logit(kind):
    model = classifier(kind)
    logits = own_logits(model, TEXT)
    found = mv.logit_attribution(model, TEXT, "good", versus="bad")
    close(found.value, float(logits[2] - logits[0]))
    close(found.sum(), float(logits[2] - logits[0]))
    assert (found.token, found.versus) == ("good", "bad")
    assert mv.logit_attribution(model, TEXT).token_id == int(logits.argmax())
    own = mv.logit_attribution(model, TEXT, "best", of="log_probability")
    close(own.sum(), float(logits.log_softmax(-1)[4]))


def test_what_is_no_sum_over_heads_and_no_text_says_so():
    with pytest.raises(AttentionUnavailableError, match="head_importance"):
        mv.logit_attribution(classifier("bert"), TEXT)
    with pytest.raises(AttentionUnavailableError, match="predicts a class"):
        mv.generate(classifier("gpt2"), TEXT)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_saved_classifier_is_loaded_with_its_head(kind, tmp_path):
    made = network(kind)
    folder = save(made, tmp_path / kind, pairs=kind == "bert")
    model = mv.load(str(folder))
    assert not [note for note in model.notes if "predictions mean nothing" in note]
    found = mv.predict(model, TEXT)
    close(found.log_probs, own_logits(model, TEXT).log_softmax(-1))
    close(found.log_probs, own_logits(classifier(kind), TEXT).log_softmax(-1))


def test_a_checkpoint_without_its_pooler_says_that_its_classes_mean_nothing(tmp_path):
    made = network("bert")
    weights = {name: w for name, w in made.state_dict().items() if ".pooler." not in name}
    folder = save(made, tmp_path / "bert", state_dict=weights)
    notes = mv.predict(mv.load(str(folder)), TEXT).notes
    assert any("pooler" in note and "predictions mean nothing" in note for note in notes)
