"""The names that the whole app uses: sizes, axes, tensors, kinds of attention and of studies.

Knows words only; must not import torch: quantities have their own table, `METRICS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where something is seen: a page of the app, by its name there, and what is chosen on it."""

    title: str
    page: str
    chosen: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Term:
    """One entry.

    Args:
        name: as it is written in code and on screen. symbol: in LaTeX, or "".
        shape: of a tensor, by the names of its axes, or "".
        meaning: one or two plain sentences.
        where: what shows it in this app.
    """

    name: str
    meaning: str
    symbol: str = ""
    shape: str = ""
    where: tuple[Place, ...] = ()


def _lab(title: str, key: str) -> tuple[Place, ...]:
    return (Place(title, f"lab-{key}"),)


INTERVENE = (Place("Intervene", "intervene"),)


SIZES = (
    Term("n", "How many tokens a text has.", "n"),
    Term("n_ctx", "How many tokens a model can take at most.", r"n_\text{ctx}"),
    Term("n_layers", "How many layers a model has.", "L"),
    Term("n_heads", "How many query heads a layer has.", "h"),
    Term(
        "n_kv_heads",
        "How many key and value heads: as many as query heads in MHA, fewer in GQA, one in MQA.",
        r"h_\text{kv}",
        where=_lab("What attention costs", "cost"),
    ),
    Term("d_model", "Width of a token’s vector between layers.", r"d_\text{model}"),
    Term(
        "d_head",
        "Width of a head’s queries and keys, often d_model / n_heads; d_k in papers.",
        r"d_\text{head} = d_k",
        where=_lab("Paint a pattern", "any-pattern"),
    ),
    Term(
        "d_value",
        "Width of a head’s values; d_head in nearly all models; d_v in papers.",
        r"d_\text{value} = d_v",
    ),
    Term("d_key", "Width of the keys where it is told apart from d_head.", r"d_\text{key}"),
    Term("d_vocab", "How many tokens a model knows.", r"d_\text{vocab}"),
)

AXES = (
    Term("batch", "Texts that are run together; the axis exists during a run only."),
    Term("layer", "Layers, counted from 0, in the order of the calculation."),
    Term("head", "Heads of a layer, counted from 0: L3 H7 is head 7 of layer 3."),
    Term("query", "The tokens that look: the rows of a pattern."),
    Term("key", "The tokens that are looked at: the columns of a pattern."),
    Term("token", "The pieces of text that a model reads; one word may be several of them."),
    Term(
        "word",
        "The tokens of one word, merged: weights to a word are summed, weights from it averaged.",
    ),
    Term(
        "all_heads",
        "All heads of all layers in one line: head h of layer l stands at l · n_heads + h.",
    ),
    Term("head2", "A second axis of heads: every head is compared with every other one."),
    Term("pair", "Two heads that are compared."),
    Term("angle", "Principal angles between two subspaces, from the smallest."),
)

TENSORS = (
    Term(
        "embedding",
        "A token’s vector before the first layer, looked up by its number in the vocabulary. Many "
        "models add a vector for its position.",
        shape="token d_model",
        where=_lab("Step by step", "step-by-step"),
    ),
    Term(
        "residual stream",
        "A token’s vector on its way through the model. Each layer reads it and adds something to "
        "it, so that what one layer has written can be read by all later ones.",
        shape="token d_model",
        where=_lab("Why W_V and W_O?", "value-output"),
    ),
    Term("X", "What a layer reads: one vector for each token.", "X", "token d_model"),
    Term(
        "W_Q, W_K, W_V",
        "A head’s projections to queries, keys and values.",
        r"W_Q, W_K, W_V",
        "head d_model d_head",
        _lab("Step by step", "step-by-step"),
    ),
    Term(
        "W_O",
        "A head’s slice of the output projection.",
        "W_O",
        "head d_value d_model",
        _lab("Why W_V and W_O?", "value-output"),
    ),
    Term(
        "b_Q, b_K, b_V, b_O",
        "Biases of the four projections; some models have none.",
        r"b_Q, b_K, b_V, b_O",
    ),
    Term(
        "Q, K, V",
        "Queries, keys and values: X times the projections.",
        "Q, K, V",
        "head token d_head",
        _lab("Soft lookup", "soft-lookup"),
    ),
    Term(
        "scale",
        "Factor on the scores; 1 / √d_head in most models.",
        r"1/\sqrt{d_k}",
        where=_lab("Soft lookup", "soft-lookup"),
    ),
    Term(
        "mask", "Which keys a query may see; what is forbidden gets the score −∞.", "M", "query key"
    ),
    Term(
        "softcap",
        "Squeezes scores into a fixed range before softmax (Gemma 2).",
        r"c \tanh(\text{scores}/c)",
    ),
    Term(
        "scores",
        "How well each query fits each key, before softmax.",
        r"\frac{Q K^\top}{\sqrt{d_k}} + M",
        "layer head query key",
    ),
    Term(
        "softmax",
        "Turns a row of numbers into shares: all positive, with the sum 1. The largest number gets "
        "the largest share, and a difference of 1 makes a share e ≈ 2.72 times as large.",
        r"\frac{e^{s_k}}{\sum_j e^{s_j}}",
        where=_lab("Soft lookup", "soft-lookup"),
    ),
    Term(
        "temperature",
        "What scores or logits are divided by before softmax. Below 1 the largest share grows; "
        "above 1 the shares come closer together.",
        r"\operatorname{softmax}(s / T)",
        where=_lab("Soft lookup", "soft-lookup"),
    ),
    Term(
        "pattern",
        "Attention weights: softmax of the scores. Rows sum to 1; a query that may see "
        "nothing has zeros.",
        "A",
        "layer head query key",
        (Place("Explore", "explore"), *_lab("Soft lookup", "soft-lookup")),
    ),
    Term(
        "z",
        "What a head gathers: its pattern times its values.",
        r"z = A V",
        "layer head query d_head",
        _lab("Step by step", "step-by-step"),
    ),
    Term(
        "head_output",
        "What a head adds to the token’s vector: z times its slice of W_O.",
        r"z_i W_O^i",
        "layer head query d_model",
    ),
    Term(
        "attention_output",
        "The sum of all heads’ outputs, plus b_O.",
        r"\textstyle\sum_i z_i W_O^i + b_O",
        "layer query d_model",
    ),
    Term(
        "W_QK, W_OV",
        "The products that matter: W_Q W_Kᵀ makes scores, W_V W_O makes outputs.",
        r"W_Q W_K^\top,\; W_V W_O",
        "head d_model d_model",
        _lab("Why W_V and W_O?", "value-output"),
    ),
    Term(
        "gate",
        "A factor on a head’s z: 1 leaves it, 0 switches it off.",
        r"\xi",
        "layer head",
        INTERVENE,
    ),
    Term(
        "logit, logits",
        "The model’s score for a token of its vocabulary. Softmax turns the logits of the whole "
        "vocabulary into probabilities.",
        "",
        "token d_vocab",
        INTERVENE,
    ),
)

KINDS = (
    Term("self-attention", "The tokens of a text look at tokens of the same text."),
    Term("cross-attention", "The tokens of a decoder look at those of its encoder."),
    Term("causal", "Query i sees keys 0 to i only: the future is hidden, as in GPT."),
    Term(
        "MHA, GQA, MQA",
        "In MHA each query head has keys and values of its own; in GQA a group of query heads "
        "shares them; in MQA all query heads do.",
        where=_lab("What attention costs", "cost"),
    ),
    Term(
        "attention sink",
        "A token, often the first, that gets the weight of heads with nothing else to look at.",
    ),
    Term(
        "syntactic head",
        "A head that finds words which belong together by grammar, such as a noun and its "
        "determiner, more often than any fixed step and any head with random weights.",
        where=_lab("What heads learn", "what-heads-learn"),
    ),
    Term("special token", "A marker that is not part of the text: [CLS], [SEP], <|endoftext|>."),
    Term(
        "attention is not explanation",
        "Weights say where a head looks, not what the model makes "
        "of it. To see what a head does, switch it off.",
        where=INTERVENE,
    ),
)

STUDIES = (
    Term(
        "circuit",
        "Parts of several layers that do one thing together: what one head writes into the "
        "residual stream, another reads. The best known is a head that looks at the token before "
        "and, in a later layer, an induction head that reads what it wrote.",
        where=_lab("How heads learn", "how-heads-learn"),
    ),
    Term(
        "ablation",
        "A head’s z is set to zero, its mean, or uniform attention, and the "
        "prediction is compared.",
        where=INTERVENE,
    ),
    Term("patching", "A head’s z or pattern is taken from a run on another text.", where=INTERVENE),
    Term(
        "ablation_kl",
        "How far an ablation moves the prediction: KL divergence, nats.",
        r"\operatorname{KL}(p \,\Vert\, p_\text{ablated})",
        where=INTERVENE,
    ),
    Term(
        "ablation_delta_logprob",
        "How much more or less likely a token becomes, nats.",
        r"\ln p_\text{ablated} - \ln p",
        where=INTERVENE,
    ),
    Term(
        "gradient_importance",
        "How steeply the loss changes when a head’s gate is turned a little.",
        r"|\partial \mathcal{L} / \partial \xi|",
        where=(Place("Intervene", "intervene", (("method", "gradient"),)),),
    ),
    Term(
        "baseline",
        "What a head that has learned nothing scores: uniform attention, a fixed "
        "offset, or the same model with random weights.",
        where=(Place("Compare", "compare", (("section", "layers"),)),),
    ),
    Term(
        "confidence interval",
        "A range around the mean over some texts, made so that it contains the true mean in 95 of "
        "100 repetitions of the study.",
    ),
    Term("nats", "Unit of entropy with the natural logarithm: 1 nat is 1.44 bits."),
)

GROUPS: tuple[tuple[str, tuple[Term, ...]], ...] = (
    ("Sizes", SIZES),
    ("Axes of tensors", AXES),
    ("From tokens to outputs", TENSORS),
    ("Kinds of attention", KINDS),
    ("Studies", STUDIES),
)
