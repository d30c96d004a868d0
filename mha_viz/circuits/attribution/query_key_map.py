"""Queries and keys of a model's heads on some texts, in one plane for each head."""

from collections.abc import Sequence

import torch

from mha_viz.core.compare.query_key_map import MAX_POINTS, QueryKeyMap, map_of_records
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import encode_texts

_ROTARY = (
    "Queries and keys are turned by their positions, as the scores saw them: one word at several "
    "positions is several points, and a pair's distance holds for its own two positions."
)


@torch.no_grad()
def query_key_map(
    model: AttentionModel,
    texts: str | Sequence[str],
    *,
    method: str = "pca",
    heads: Sequence[tuple[int, int]] | None = None,
    max_points: int = MAX_POINTS,
    seed: int = 0,
) -> QueryKeyMap:
    """Put all queries and keys of some texts in one plane for each head: AttentionViz.

    Softmax does not see what is added to all scores of a query, and c q · k / c is q · k. So the
    keys are moved until their mean is that of the queries, then queries are multiplied and keys
    divided by the c with which scores and minus the squared distances correlate most. Queries and
    keys together are projected on the two directions in which they vary most.

    Args:
        model: any that our attention runs in; of an encoder-decoder, the encoder.
        texts: one or more. Where they have more than `max_points` / 2 tokens, texts are drawn at
            random while they fit, and the notes say how many.
        method: "pca"; "tsne" or "umap" need the extra `maps`, and take seconds for each head.
        heads: (layer, head) of those that t-SNE or UMAP lays out; others are NaN. None is all.
        max_points: of a head, queries and keys together, 2 or more.
        seed: of the draw of texts and pairs, of t-SNE and UMAP.

    Returns:
        QueryKeyMap: points (layer, head, 2, token, 2), and how far each map can be believed.

    Raises:
        TextError: no text, or one that cannot be used.
        ArgumentError: an unknown method, no such head, or too few points for the method.
        NotKeptError: a family whose queries and keys are not known.

    Source: Yeh et al. 2023, AttentionViz. Theirs are t-SNE and UMAP; numbers that say how far a map
    can be believed are ours.

    >>> import mha_viz as mv
    >>> key_map = mv.query_key_map(mv.load("tiny-gpt2"), ["The cat sat on the mat.", "A dog ran."])
    >>> key_map.points.shape[:3], key_map.table().columns[2]
    (torch.Size([4, 8, 2]), 'plane_correlation')
    """
    text_list = [texts] if isinstance(texts, str) else list(texts)
    if isinstance(max_points, bool) or not isinstance(max_points, int) or max_points < 2:
        raise ArgumentError(f"max_points must be a whole number from 2 on, got {max_points!r}.")
    limit = max_points // 2
    used, notes = _drawn(model, text_list, limit, seed)
    keep = ("pattern", "query", "key")
    records = [model.trace(text, keep=keep) for text in used]
    notes += [_ROTARY] * model.is_rotary
    return map_of_records(records, method=method, heads=heads, limit=limit, seed=seed, notes=notes)


def _drawn(
    model: AttentionModel, texts: Sequence[str], limit: int, seed: int
) -> tuple[list[str], list[str]]:
    """Return the texts that fit, at least one, in their order, and a note where not all do."""
    if not texts:
        raise ArgumentError("A map needs at least one text.")
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    total, chosen = 0, list[int]()
    for i in order:
        total += len(encode_texts(model.stored_reader, texts[i])[0].tokens)
        if chosen and total > limit:
            break
        chosen.append(i)
    if len(chosen) == len(texts):
        return list(texts), []
    note = f"{len(chosen):,} of {len(texts):,} texts are on the map, drawn at random."
    return [texts[i] for i in sorted(chosen)], [note]
