"""Classifiers and question answerers, against transformers' own eager run of the same files."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers as tf
from torch.distributions import Bernoulli, Categorical, kl_divergence
from transformers.pytorch_utils import Conv1D

import mha_viz as mv
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.making.checkpoints import OTHER, TEXT, WORDS, save, spread, tokenizer
from tests.making.comparing import close

LABELS = ["bad", "so-so", "good", "better", "best"]
LAYERS, HEADS = 3, 5
W_O = ("attention.output.dense", "attention.out_lin", "self_attn.o_proj", "attn.c_proj")
TEXTS = [TEXT, f"{OTHER} {TEXT}"]  # of different lengths, so that a batch has padding


@dataclass
class Case:
    """A head, what is followed, and the same numbers from the network's own output."""

    head: str
    loss: Callable[[Any], torch.Tensor]  # of one run, for `labels`
    labels: Any = None
    ablated: dict[str, Any] = field(default_factory=dict)  # arguments of `ablate`
    logits: Callable[[Any], torch.Tensor] | None = None  # there; None for a number
    number: int = 0  # of the target among them
    config: dict[str, Any] = field(default_factory=dict)
    pair: str | None = None

    @property
    def of_labels(self) -> bool:
        return "problem_type" in self.config


def minus(logits: torch.Tensor, number: int) -> torch.Tensor:
    return -logits.log_softmax(-1)[number]


OF_TEXTS = ("SequenceClassification", lambda o: minus(o.logits[0], 2), "good")
CASES = {
    "class": Case(*OF_TEXTS, {"target": "so-so"}, lambda o: o.logits[0], number=1),
    "class, no padding token": Case(
        *OF_TEXTS,
        {"target": "bad"},
        lambda o: o.logits[0],
        config={"pad_token_id": None},
    ),
    "answer": Case(
        "QuestionAnswering",
        lambda o: (minus(o.start_logits[0], 9) + minus(o.end_logits[0], 11)) / 2,
        {"start": 9, "end": 11},
        {"target": "end:10"},
        lambda o: o.end_logits[0],
        number=10,
        pair=OTHER,
        config={"num_labels": 2},
    ),
    "tokens": Case(
        "TokenClassification",
        lambda o: (minus(o.logits[0, 2], 2) + minus(o.logits[0, 4], 0)) / 2,
        {2: "good", 4: "bad"},
        {"target": "better", "position": 3},
        lambda o: o.logits[0, 3],
        number=3,
    ),
    "labels": Case(
        "SequenceClassification",
        lambda o: -(o.logits[0, [2, 0]] * torch.tensor([1, -1])).sigmoid().log().mean(),
        {"good": True, "bad": False},
        {"target": "good"},
        lambda o: o.logits[0],
        number=2,
        config={"problem_type": "multi_label_classification"},
    ),
    "number": Case(
        "SequenceClassification",
        lambda o: o.logits[0, 0],
        config={"id2label": {0: "stars"}, "label2id": {"stars": 0}},
    ),
}
FAMILIES = ("Bert", "Roberta", "DistilBert", "Llama", "GPT2")
DECODERS = FAMILIES[3:]
ALL = [(family, name) for name in CASES for family in (DECODERS if "padding" in name else FAMILIES)]


def saved(family: str, case: Case, folder) -> tuple[mv.AttentionModel, tf.PreTrainedModel]:
    """The checkpoint as `load` has it, and as transformers runs it by its own eager attention."""
    names = dict(enumerate(LABELS))
    sizes = dict(num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=37)
    sizes |= dict(vocab_size=len(WORDS), max_position_embeddings=41, pad_token_id=0)
    sizes |= dict(hidden_size=30 if family == "Llama" else 35, hidden_dim=37)
    if "num_labels" not in case.config:
        sizes |= dict(id2label=names, label2id={name: i for i, name in names.items()})
    sizes |= case.config
    kind = getattr(tf, f"{family}For{case.head}")
    made = spread(kind(kind.config_class(**sizes)))
    for module in made.modules():
        if "Norm" in type(module).__name__:
            module.weight.data += 1  # so that the heads' share is not drowned by biases
    save(made, folder, pairs=family not in DECODERS)
    own = kind.from_pretrained(folder, attn_implementation="eager").eval()
    return mv.load(str(folder)), own


def inputs_of(family: str, case: Case) -> tuple[list[str], str | None]:
    """The texts and their second segment, which our decoder's tokenizer has none of."""
    if family not in DECODERS or case.pair is None:
        return TEXTS, case.pair
    return [f"{text} {case.pair}" for text in TEXTS], None


def run(model: mv.AttentionModel, network: tf.PreTrainedModel, text: str, pair: str | None) -> Any:
    inputs = model.tokenizer(text, pair, return_tensors="pt")
    if network.config.model_type != "bert":
        inputs.pop("token_type_ids", None)
    return network(**inputs)


def outputs_of(network: tf.PreTrainedModel) -> list[Any]:
    found = [module for path, module in network.named_modules() if path.endswith(W_O)]
    found = [module for module in found if hasattr(module, "weight")]
    assert len(found) == LAYERS
    return found


def by_head(module: Any, weight: torch.Tensor) -> torch.Tensor:
    """Numbers of W_O as (head, its rows, d_model)."""
    return (weight if isinstance(module, Conv1D) else weight.T).unflatten(0, (HEADS, -1))


def without(network: tf.PreTrainedModel, layer: int, head: int) -> tf.PreTrainedModel:
    changed = copy.deepcopy(network)
    module = outputs_of(changed)[layer]
    with torch.no_grad():
        by_head(module, module.weight)[head] = 0
    return changed


@pytest.mark.parametrize(("family", "name"), ALL)
def test_outcomes_and_importance_are_the_networks_own(family, name, tmp_path):
    case, (texts, pair) = CASES[name], inputs_of(family, CASES[name])
    model, own = saved(family, case, tmp_path)
    found = mv.ablate(model, texts[0], [(1, 3)], text_pair=pair, **case.ablated)
    before, after = (run(model, one, texts[0], pair) for one in (own, without(own, 1, 3)))
    if case.logits is None:
        values = torch.tensor([found.before.value, found.after.value])
        close(values, torch.stack([before.logits[0, 0], after.logits[0, 0]]))
        close(found.value_change, float(after.logits - before.logits))
    else:
        made = Bernoulli if case.of_labels else Categorical
        p, q = (made(logits=case.logits(one)) for one in (before, after))
        close(found.kl, float(kl_divergence(p, q).sum()), rtol=1e-3)
        assert found.kl > 1e-5
        close(found.before.entropy, float(p.entropy().sum()))
        close(found.after.log_probs, q.probs.log())
        change = q.probs[case.number].log() - p.probs[case.number].log()
        close(found.target.change, float(change))
        assert found.target.id == case.number
    for method in ("ablation", "gradient"):
        got = mv.head_importance(model, texts, method, labels=case.labels, text_pair=pair)
        for i, text in enumerate(texts):
            loss = case.loss(run(model, own, text, pair))
            close(got.loss[i], float(loss))
            if method == "ablation":
                off = case.loss(run(model, without(own, 2, 1), text, pair))
                close(got.values[i, 2, 1], float(off - loss))
                continue
            outputs = outputs_of(own)  # a gate scales a slice of W_O
            slopes = torch.autograd.grad(loss, [module.weight for module in outputs])
            both = zip(outputs, slopes, strict=True)
            gates = [by_head(m, m.weight * slope).sum((1, 2)) for m, slope in both]
            close(got.values[i], torch.stack(gates).abs())


@pytest.mark.parametrize(("family", "name"), ALL)
def test_attribution_sums_to_the_logit(family, name, tmp_path):
    case, ((text, _), pair) = CASES[name], inputs_of(family, CASES[name])
    model, own = saved(family, case, tmp_path)
    if case.head == "SequenceClassification" and family not in DECODERS:
        with pytest.raises(AttentionUnavailableError, match="head_importance"):
            mv.logit_attribution(model, TEXT)
        return
    place = {"position": 3} if name == "tokens" else {}
    chosen = case.ablated.get("target")
    found = mv.logit_attribution(model, text, chosen, text_pair=pair, **place)
    output = run(model, own, text, pair)
    logits = output.logits[0] if case.logits is None else case.logits(output)
    close(found.value, float(logits[case.number]))
    close(found.sum(), float(logits[case.number]))
    assert float(found.heads.abs().sum()) > 0.01
    if name in ("class", "tokens"):
        against = mv.logit_attribution(model, text, "good", versus="best", **place)
        close(against.sum(), float(logits[2] - logits[4]))
        assert mv.logit_attribution(model, text, **place).token_id == int(logits.argmax())
        log_p = mv.logit_attribution(model, text, "best", of="log_probability", **place)
        close(log_p.sum(), float(logits.log_softmax(-1)[4]))


@pytest.mark.parametrize("family", ["Bert", "GPT2"])
def test_a_class_is_read_at_one_token_and_compared_with_another(family, tmp_path):
    model, own = saved(family, CASES["class"], tmp_path)
    assert not [note for note in model.notes if "predictions mean nothing" in note]
    log_p = run(model, own, TEXT, None).logits[0].log_softmax(-1)
    found = mv.ablate(model, TEXT, [(1, 3)], target="good", against=0, top_k=2)
    close(found.logit_difference_before, float(log_p[2] - log_p[0]))
    assert found.before.candidates == tuple(LABELS[i] for i in log_p.topk(2).indices)
    n_tokens = len(found.before.tokens)
    assert found.before.position == (0 if family == "Bert" else n_tokens - 1)
    likeliest = [int(run(model, own, text, None).logits[0].argmax()) for text in TEXTS]
    taken = [mv.head_importance(model, TEXTS, labels=labels) for labels in (None, likeliest)]
    assert torch.equal(taken[0].values, taken[1].values)
    for call, message in (
        (lambda: mv.ablate(model, TEXT, [(1, 3)], target="the"), "one of 5 classes"),
        (lambda: mv.predict(model, TEXT, position=1), "leave out position"),
        (lambda: mv.head_importance(model, TEXTS, labels=["bad"]), "one for each of 2 texts"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()
    with pytest.raises(AttentionUnavailableError, match="predicts a class"):
        mv.generate(model, TEXT)


def test_a_checkpoint_without_its_pooler_says_that_its_classes_mean_nothing(tmp_path):
    _, own = saved("Bert", CASES["class"], tmp_path / "whole")
    weights = {name: w for name, w in own.state_dict().items() if ".pooler." not in name}
    folder = save(own, tmp_path / "part", state_dict=weights)
    notes = mv.predict(mv.load(str(folder)), TEXT).notes
    assert any("pooler" in note and "predictions mean nothing" in note for note in notes)


def test_an_answer_is_read_in_the_context_alone(tmp_path):
    model, own = saved("Bert", CASES["answer"], tmp_path)
    start = mv.predict(model, TEXT, text_pair=OTHER, top_k=99)
    (end,) = start.other_predictions
    output = run(model, own, TEXT, OTHER)
    for one, logits in ((start, output.start_logits[0]), (end, output.end_logits[0])):
        context = list(range(8, 8 + len(OTHER.split())))  # [CLS] six words [SEP] eight words [SEP]
        order = sorted(context, key=lambda i: -float(logits[i]))
        assert list(one.ids) == order
        assert one.candidates == tuple(OTHER.split()[i - 8] for i in order)
        close(one.probabilities, logits.softmax(-1)[order])
        none = int(logits.argmax()) not in context
        assert any("no answer" in note for note in one.notes) == none
    assert (start.objective, end.objective) == ("start", "end")
    likeliest = mv.ablate(model, TEXT, [(0, 0)], target="end", text_pair=OTHER)
    assert (likeliest.target.id, likeliest.before.objective) == (end.ids[0], "end")
    both = mv.head_importance(model, TEXT, text_pair=OTHER)
    given = {"start": start.ids[0], "end": end.ids[0]}
    close(both.values, mv.head_importance(model, TEXT, text_pair=OTHER, labels=given).values)
    for wrong in ("middle", "end:99", "the"):
        with pytest.raises(ArgumentError, match='"end:7"'):
            mv.ablate(model, TEXT, [(0, 0)], target=wrong, text_pair=OTHER)
    with pytest.raises(ArgumentError, match="another token of the end"):
        mv.ablate(model, TEXT, [(0, 0)], target="end", against="start:9", text_pair=OTHER)


def test_each_token_has_its_class_and_one_of_them_is_followed(tmp_path):
    model, own = saved("Bert", CASES["tokens"], tmp_path)
    logits = run(model, own, TEXT, None).logits[0]
    found = mv.predict(model, TEXT)
    assert [one.position for one in (found, *found.other_predictions)] == [1, 2, 3, 4, 5, 6]
    for one in (found, *found.other_predictions):
        close(one.log_probs, logits[one.position].log_softmax(-1))
    own_classes = {i: int(logits[i].argmax()) for i in range(1, 7)}
    taken = mv.head_importance(model, TEXT)
    close(taken.values, mv.head_importance(model, TEXT, labels=own_classes).values)
    one = [mv.head_importance(model, TEXT, labels=label).values for label in ("3:best", {3: 4})]
    assert torch.equal(*one)
    for wrong in ("best", "99:best", {}):
        with pytest.raises(ArgumentError, match=r"okens must lie|token's number|no place"):
            mv.head_importance(model, TEXT, labels=wrong)
    with pytest.raises(ArgumentError, match="never asked"):
        mv.predict(model, TEXT, position=0)


def test_texts_of_one_length_share_the_bias_that_t5_hands_from_layer_to_layer():
    sizes = dict(d_model=14, d_kv=7, d_ff=11, num_layers=3, num_heads=5, vocab_size=len(WORDS))
    made = spread(tf.T5ForTokenClassification(tf.T5Config(**sizes, num_labels=3)))
    model = mv.wrap(made, tokenizer(pairs=False))
    texts = [TEXT, " ".join(reversed(TEXT.split()))]
    alone = [mv.head_importance(model, text).values[0] for text in texts]
    close(mv.head_importance(model, texts).values, torch.stack(alone))


@pytest.mark.parametrize("head", ["SequenceClassification", "QuestionAnswering"])
def test_an_encoder_decoder_classifier_says_why_it_predicts_nothing(head, tmp_path):
    sizes = dict(d_model=14, encoder_layers=2, decoder_layers=2, max_position_embeddings=41)
    sizes |= dict(encoder_attention_heads=2, decoder_attention_heads=2, vocab_size=len(WORDS))
    sizes |= dict(encoder_ffn_dim=11, decoder_ffn_dim=11, pad_token_id=0, eos_token_id=3)
    made = getattr(tf, f"BartFor{head}")(tf.BartConfig(**sizes))
    model = mv.load(str(save(made.eval(), tmp_path)))
    for call in (mv.predict, mv.head_importance):
        with pytest.raises(AttentionUnavailableError, match=f"BartFor{head}.*two stacks"):
            call(model, TEXT)
