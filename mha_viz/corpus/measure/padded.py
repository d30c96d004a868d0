"""The texts of a padded batch as tensors, and the keys that the queries of a layer see in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from mha_viz.core.copies import to_device
from mha_viz.core.metrics.blocks import Texts, Visible
from mha_viz.core.record.attention_record import Token
from mha_viz.text.tokens import Encoded

# Of a key, as a query sees it: it is of the first kind that fits.
KINDS = ("itself", "same token", "special", "punctuation", "first", "other")


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddedTexts(Texts):
    """A batch before it runs; positions of padding are False throughout."""

    is_special: Tensor  # bool (batch, position), special tokens
    real: Tensor  # bool (batch, position), what is no padding
    punctuation: Tensor  # bool (batch, position), tokens of punctuation alone
    same: Tensor  # bool (batch, position, position), another position that holds the same token
    same_pairs: tuple[Tensor, ...]  # where `same` is true: row, query and key of each
    padding: tuple[Tensor, ...]  # row and position of what is padding

    @classmethod
    def of(
        cls, encoded: Sequence[Encoded], causal: bool, device: torch.device | str = "cpu"
    ) -> PaddedTexts:
        """Pad the texts of a batch to the longest."""
        lengths = torch.tensor([len(text.tokens) for text in encoded])
        longest = int(lengths.max())
        ids = torch.full((len(encoded), longest), -1)
        special, punctuation = (torch.zeros_like(ids, dtype=torch.bool) for _ in range(2))
        for row, text in enumerate(encoded):
            n = len(text.tokens)
            ids[row, :n] = torch.tensor([token.id for token in text.tokens])
            special[row, :n] = torch.tensor([token.is_special for token in text.tokens])
            punctuation[row, :n] = torch.tensor(
                [is_punctuation(token, text.text) for token in text.tokens]
            )
        real = torch.arange(longest) < lengths[:, None]
        same = (ids[:, :, None] == ids[:, None]) & real[:, :, None] & real[:, None]
        same &= ~torch.eye(longest, dtype=torch.bool)
        # Found here and not on the device, which would have to be waited for.
        indices = (mask.nonzero(as_tuple=True) for mask in (same, ~real))
        same_pairs, padding = (tuple(to_device(axis, device) for axis in at) for at in indices)
        texts = dict(lengths=lengths, ids=ids, is_special=special, real=real)
        texts |= dict(punctuation=punctuation, same=same)
        on_device: dict[str, Any] = {name: to_device(axis, device) for name, axis in texts.items()}
        return cls(**on_device, causal=causal, same_pairs=same_pairs, padding=padding)

    @cached_property
    def kinds_of_keys(self) -> dict[str, Tensor]:
        """The kind of each key, of `KINDS`, where it is another token: bool (batch, key)."""
        by_name = {
            "special": self.is_special,
            "punctuation": self.punctuation,
            "first": torch.arange(self.real.shape[1], device=self.real.device) == 0,
            "other": self.real,
        }
        unassigned, by_kind = self.real, {}
        for name, keys in by_name.items():
            by_kind[name] = unassigned & keys
            unassigned = unassigned & ~keys
        return by_kind

    def cleared(self, pattern: Tensor) -> Tensor:
        """Convert a pattern to float32, with zeros in the rows of padding; in place where it can.

        The keys of padding have weight 0 already: the mask hides them.
        """
        wide = pattern.float()
        batch, query = self.padding
        wide[batch, :, query] = self.once("zero", lambda: wide.new_zeros(()))
        return wide


def visible_keys(texts: PaddedTexts, allowed: Tensor | None) -> Visible:
    """Restrict a layer's mask to real queries and keys; without one it is full, or causal."""
    visible = texts.real[:, :, None] & texts.real[:, None]
    if allowed is not None:
        return Visible.of(texts, visible & allowed)
    return Visible.of(texts, visible.tril() if texts.causal else visible)


def kinds_of_keys(texts: PaddedTexts, visible: Tensor) -> dict[str, Tensor]:
    """Return the keys of each of `KINDS` that a query sees: bool (batch, query, key)."""
    itself = torch.eye(visible.shape[-1], dtype=torch.bool, device=visible.device)
    other = visible & ~texts.same & ~itself
    by_kind = {"itself": visible & itself, "same token": visible & texts.same}
    return by_kind | {kind: other & keys[:, None] for kind, keys in texts.kinds_of_keys.items()}


def is_punctuation(token: Token, text: str) -> bool:
    """Tell whether a token is made of punctuation and symbols alone; special ones are not."""
    if token.is_special or token.start is None:
        return False
    return _is_signs(text[token.start : token.end])


@lru_cache(1 << 14)  # the same short words come again and again
def _is_signs(piece: str) -> bool:
    piece = piece.strip()
    return bool(piece) and all(unicodedata.category(sign)[0] in "PS" for sign in piece)
