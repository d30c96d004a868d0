"""The number of different tokens that see themselves elsewhere, beside a count by hand."""

import pytest
import torch

from mha_viz.core.metrics.blocks import Texts, Visible
from mha_viz.core.metrics.position import repeated_tokens

BATCH, N = 5, 13


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_special", [False, True])
def test_repeated_tokens_counts_each_token_once(causal: bool, with_special: bool) -> None:
    random = torch.Generator().manual_seed(7)
    ids = torch.randint(0, 7, (BATCH, N), generator=random)
    special = torch.rand(BATCH, N, generator=random) < 0.3
    seen = torch.rand(BATCH, N, N, generator=random) < 0.6
    seen = seen.tril() if causal else seen
    texts = Texts(torch.full((BATCH,), N), ids, special if with_special else None, causal)
    expected = [
        len(
            {
                int(ids[text, query])
                for query in range(N)
                for key in range(N)
                if key != query
                and seen[text, query, key]
                and ids[text, query] == ids[text, key]
                and not (with_special and special[text, query])
            }
        )
        for text in range(BATCH)
    ]
    assert repeated_tokens(Visible.of(texts, seen), texts).tolist() == expected
    assert len(set(expected)) > 1
