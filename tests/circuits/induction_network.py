"""A GPT-2 whose weights are written by hand: it does induction, with saturated attention.

The stream has three parts: the token (T), its position (P), and the token before it (B). L0 H0
looks at the token before and writes it into B. L1 H0 looks where B holds its own token and writes
what stands there into T. Both have a score for the right token that is far above all others, so
that their weights are 1 or 0 to many digits and the gradient through their softmax is nearly 0. The
other heads are random and weak. The one path that matters leads from L0 H0 into the key of L1 H0.
"""

import torch
import transformers as tf

from mha_viz.engine.model import AttentionModel
from tests.making.checkpoints import WORDS, tokenizer

CLEAN = "the cat sat on cat"
N_CTX, N_HEADS, D_HEAD = 11, 3, 13
D_MODEL = N_HEADS * D_HEAD
TOKEN, POSITION = slice(0, len(WORDS)), slice(len(WORDS), len(WORDS) + N_CTX)
BEFORE = slice(POSITION.stop, POSITION.stop + len(WORDS))


def induction_model() -> AttentionModel:
    """Two layers of three heads, in float64."""
    network = _blank()
    body = network.transformer
    _write(body.h[0].attn, (POSITION, _one_back()), POSITION, BEFORE, 0.3)
    same = torch.eye(len(WORDS), D_HEAD).double()
    _write(body.h[1].attn, (TOKEN, same), BEFORE, TOKEN, 3.0)
    return AttentionModel(network, tokenizer(pairs=False), name="written by hand")


def _one_back() -> torch.Tensor:
    """Position i asks for i - 1."""
    one_back = torch.eye(N_CTX, D_HEAD).roll(1, 0).double()
    one_back[0] = 0.0
    return one_back


def _blank() -> tf.GPT2LMHeadModel:
    """One whose embeddings write T and P, and whose heads are random and weak."""
    config = tf.GPT2Config(
        vocab_size=len(WORDS),
        n_embd=D_MODEL,
        n_layer=2,
        n_head=N_HEADS,
        n_positions=N_CTX,
        n_inner=7,
        bos_token_id=2,
        eos_token_id=3,
    )
    network = tf.GPT2LMHeadModel(config).double().eval().requires_grad_(False)
    rng = torch.Generator().manual_seed(5)
    for name, parameter in network.named_parameters():
        random = ".attn." in name and name.endswith("weight")
        parameter.copy_(0.07 * torch.randn(parameter.shape, generator=rng) if random else 0.0)
        if ".ln_" in name and name.endswith("weight"):
            parameter.fill_(1.0)
    body = network.transformer
    body.wte.weight[:, TOKEN] = torch.eye(len(WORDS)).double()
    body.wpe.weight[:, POSITION] = torch.eye(N_CTX).double()
    return network


def _write(
    attention: tf.PreTrainedModel,
    asks: tuple[slice, torch.Tensor],
    offers: slice,
    to: slice,
    size: float,
) -> None:
    """Make the first head of a layer match a query part with a key part, and write the token."""
    weight, out = attention.c_attn.weight, attention.c_proj.weight
    part, query = asks
    eye = torch.eye(D_MODEL, D_HEAD).double()
    for start in (0, D_MODEL, 2 * D_MODEL):
        weight[:, start : start + D_HEAD] = 0.0
    weight[part, :D_HEAD] = 4.0 * query
    weight[offers, D_MODEL : D_MODEL + D_HEAD] = 4.0 * eye[: offers.stop - offers.start]
    weight[TOKEN, 2 * D_MODEL : 2 * D_MODEL + D_HEAD] = eye[: len(WORDS)]
    out[:D_HEAD] = 0.0
    out[:D_HEAD, to] = size * torch.eye(D_HEAD, len(WORDS)).double()
