"""The networks of the lab as it opens with them, and their attention as records."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.flow import last_rollout
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.stored_runs import StoredRun
from mha_viz.learn.networks import digits, translation
from mha_viz.learn.networks.digits import Reading
from mha_viz.learn.networks.translation import Translating
from mha_viz.learn.training import with_weights
from mha_viz.text.from_weights import record

N_HIDDEN = 4  # patches of the picture that is looked at
STORED: tuple[StoredRun[Translating] | StoredRun[Reading], ...] = (
    StoredRun("translating", (0,), Translating, translation.learn),
    StoredRun("translating-4", (4,), Translating, partial(translation.learn, seed=4)),
    StoredRun("reading-digits", (0,), Reading, digits.learn),
)


@torch.no_grad()
def translate(weights: Float[Tensor, " weight"], words: Sequence[str]) -> AttentionRecord:
    """Translate up to 7 words of the vocabulary; record the cross attention of each word written.

    Its tokens are the translation, its key tokens the words.
    """
    network = with_weights(translation.Translator(), weights)
    ids = torch.tensor([[translation.SOURCE.index(word) for word in words]])
    written, cross = translation.translate_ids(network, ids)
    target = [translation.TARGET[i] for i in written[0].tolist()]
    end = target.index(".", 1) if "." in target[1:] else len(target)
    return record(cross[:, :, :end], target[:end], words, text=" ".join(words))


class Read(NamedTuple):
    """A picture as the vision transformer reads it.

    Args:
        record: of its self-attention: the class token, then 16 patches row after row.
        probabilities: of the 10 digits; and with the four patches hidden that get the most
            attention, and with four random ones, as a mean over draws.
    """

    record: AttentionRecord
    probabilities: Float[Tensor, "3 digit"]


@torch.no_grad()
def read(weights: Float[Tensor, " weight"], picture: Float[Tensor, "row column"]) -> Read:
    """Read a digit, all of it and with patches hidden, and record the attention."""
    network = with_weights(digits.VisionTransformer(), weights)
    picture = picture.to(weights)[None]
    unhidden, patterns = network(picture)
    attended = digits.top_patches(digits.class_token_weights(patterns)["attention"], N_HIDDEN)
    random = torch.rand(
        digits.N_DRAWS, digits.N_PATCHES, generator=torch.Generator().manual_seed(0)
    )
    without, _ = network(picture, attended)
    anyway, _ = network(
        picture.expand(digits.N_DRAWS, -1, -1), digits.top_patches(random, N_HIDDEN)
    )
    likely = [logits.softmax(-1).mean(0) for logits in (unhidden, without, anyway)]
    tokens = ["class", *(f"patch {i}" for i in range(digits.N_PATCHES))]
    return Read(record(patterns, tokens), torch.stack(likely))


def class_weights(record: AttentionRecord, layer: int) -> pd.DataFrame:
    """Return the class token's weights on each patch: of a layer's heads, their mean, and rollout.

    Rollout is that of all layers up to this one.
    """
    heads = record.pattern[layer, :, 0, 1:]
    table = pd.DataFrame(heads.T.numpy(), columns=[f"head {i}" for i in range(digits.N_HEADS)])
    table["mean of heads"] = heads.mean(0).numpy()
    table["rollout"] = last_rollout(record.pattern[: layer + 1])[0, 1:].numpy()
    table.insert(0, "patch", range(digits.N_PATCHES))
    return table
