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
    Term("batch", "Texts that run together; lives only inside of a run."),
    Term("layer", "Layers, counted from 0, in the order of the calculation."),
    Term("head", "Heads of a layer, counted from 0: L3 H7 is head 7 of layer 3."),
    Term("query", "Tokens that look: the rows of a pattern."),
    Term("key", "Tokens that are looked at: the columns of a pattern."),
    Term("token", "Pieces of text that a model reads; a word may be several."),
    Term("word", "Tokens of one word, merged: weights to a word are summed, from a word averaged."),
    Term(
        "all_heads",
        "All heads of all layers in one line: head h of layer l stands at l · n_heads + h.",
    ),
    Term("head2", "A second axis of heads: each beside each other."),
    Term("pair", "Two heads that are compared."),
    Term("angle", "Principal angles between two subspaces, from the smallest."),
)

TENSORS = (
    Term("X", "What comes into a layer: a vector for each token.", "X", "token d_model"),
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
        "Bends scores into a range before softmax (Gemma 2).",
        r"c \tanh(\text{scores}/c)",
    ),
    Term(
        "scores",
        "How well each query fits each key, before softmax.",
        r"\frac{Q K^\top}{\sqrt{d_k}} + M",
        "layer head query key",
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
        "logits",
        "What the model says of each token of its vocabulary, before softmax.",
        "",
        "token d_vocab",
        INTERVENE,
    ),
)

KINDS = (
    Term("self-attention", "Tokens look at tokens of the same text."),
    Term("cross-attention", "A decoder’s tokens look at the encoder’s."),
    Term("causal", "Query i sees keys 0 to i only: the future is hidden, as in GPT."),
    Term(
        "MHA, GQA, MQA",
        "Each query head with keys and values of its own; groups of query heads "
        "that share them; all of them sharing one.",
        where=_lab("What attention costs", "cost"),
    ),
    Term(
        "attention sink", "A token, often the first, where heads rest when they have nothing to do."
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
        "How steeply the loss answers to a head’s gate.",
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
        "A range around a mean over texts, made so that it holds the true "
        "mean in 95 of 100 repetitions of the study.",
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

# What is often believed, what is the case, and the lab that measures it.
MISCONCEPTIONS = (
    (
        "The weights of a head explain the prediction.",
        "They say where it looks. What it does is seen when it is switched off.",
        "statements",
    ),
    (
        "Without W_Q and W_K a token attends to itself.",
        "Only where no other token’s vector reaches further in its direction; often one does.",
        "own-reflection",
    ),
    (
        "A pattern of rank n needs d_k = n.",
        "The rank of the scores counts, not that of the weights: two dimensions make every token "
        "look at itself, as nearly as you like.",
        "any-pattern",
    ),
    (
        "Scores are divided by √d_k to save time.",
        "They are divided to keep their variance at 1, so that softmax lets gradients through.",
        "soft-lookup",
    ),
    (
        "Attention is more general than convolution, so it is no convolution.",
        "k × k heads with the right positions are one, to the last digits; they only pay more.",
        "convolution",
    ),
    (
        "A head that leads from “it” to the noun has understood what is meant.",
        "One line on one sentence shows nothing: count over many, beside a step that is always "
        "the same and beside heads with random weights.",
        "what-heads-learn",
    ),
    (
        "Heads cost more the more of them there are.",
        "With d_head = d_model / n_heads the multiplications stay the same; only the "
        "patterns grow.",
        "cost",
    ),
)
