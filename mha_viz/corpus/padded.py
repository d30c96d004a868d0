"""The texts of a padded batch as tensors, and what the queries of a layer see in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mha_viz.core.record import Token
from mha_viz.text.tokens import Encoded

# Of a key, as a query sees it: it is of the first kind that fits.
KINDS = ("itself", "same token", "special", "punctuation", "first", "other")


@dataclass(frozen=True, eq=False)
class PaddedTexts:
    """What is known of a batch before it runs; positions of padding are False throughout.

    Args:
        lengths: int (batch,), tokens of each text.
        real: bool (batch, position), what is no padding.
        special: bool (batch, position), special tokens.
        punctuation: bool (batch, position), tokens of punctuation alone.
        same: bool (batch, position, position), another position that holds the same token.
        same_pairs: where `same` is true: row, query and key of each.
        padding: row and position of what is padding.
        causal: whether a query sees no later key.
    """

    lengths: Tensor
    real: Tensor
    special: Tensor
    punctuation: Tensor
    same: Tensor
    same_pairs: tuple[Tensor, ...]
    padding: tuple[Tensor, ...]
    causal: bool

    @classmethod
    def of(
        cls, encoded: Sequence[Encoded], causal: bool, device: torch.device | str = "cpu"
    ) -> PaddedTexts:
        """The texts of a batch, padded to the longest.

        Args:
            encoded: at least one text.
            causal: whether the model's queries see no later key.
            device: where the model runs.
        """
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
        places = (found.nonzero(as_tuple=True) for found in (same, ~real))
        same_pairs, padding = (tuple(axis.to(device) for axis in found) for found in places)
        tensors = (lengths, real, special, punctuation, same)
        lengths, real, special, punctuation, same = (tensor.to(device) for tensor in tensors)
        return cls(lengths, real, special, punctuation, same, same_pairs, padding, causal)

    @cached_property
    def kinds_of_keys(self) -> dict[str, Tensor]:
        """Of which of `KINDS` a key is where it is another token: bool (batch, key)."""
        by_name = {
            "special": self.special,
            "punctuation": self.punctuation,
            "first": torch.arange(self.real.shape[1], device=self.real.device) == 0,
            "other": self.real,
        }
        left, found = self.real, {}
        for name, keys in by_name.items():
            found[name] = left & keys
            left = left & ~keys
        return found

    def cleared(self, pattern: Tensor) -> Tensor:
        """A layer's pattern in float32, with zeros in the rows of padding; written to it if it can.

        The keys of padding have weight 0 already: the mask hides them.

        Args:
            pattern: (batch, head, query, key).
        """
        wide = pattern.float()
        batch, query = self.padding
        wide[batch, :, query] = 0.0
        return wide


@dataclass(frozen=True, eq=False)
class Sight:
    """What the queries of a layer see; layers with the same mask share one.

    Args:
        texts: of the batch.
        seen: bool (batch, query, key), no padding on either side.
    """

    texts: PaddedTexts
    seen: Tensor

    @classmethod
    def of(cls, texts: PaddedTexts, allowed: Tensor | None) -> Sight:
        """What a layer's mask lets the real queries see of the real keys.

        Args:
            texts: of the batch.
            allowed: (batch or 1, query, key), of `LayerTensors`; None: every key, or in a causal
                model those up to the query's own.
        """
        seen = texts.real[:, :, None] & texts.real[:, None]
        if allowed is not None:
            return cls(texts, seen & allowed)
        return cls(texts, seen.tril() if texts.causal else seen)

    @cached_property
    def per_most_entropy(self) -> Tensor:
        """1 / ln(keys that a row may see), (batch, query); 0 where that is one key or none."""
        most = self.seen.sum(-1).float().log()
        return torch.where(most > 0, 1 / most, 0.0)

    @cached_property
    def repeats(self) -> Tensor:
        """Where a query may see its own token elsewhere, (batch, query, key); no special ones."""
        return self.texts.same & ~self.texts.special[:, :, None] & self.seen

    @cached_property
    def repeating_rows(self) -> Tensor:
        """How many queries may, (batch,)."""
        return self.repeats.any(-1).sum(-1).float()

    @cached_property
    def repeating_tokens(self) -> Tensor:
        """How many different tokens those queries hold, (batch,)."""
        asking = self.repeats.any(-1)
        held_before = (self.texts.same & asking[:, None]).tril(-1).any(-1)
        return (asking & ~held_before).sum(-1).float()

    @cached_property
    def kinds(self) -> dict[str, Tensor]:
        """Which keys that a query sees are of each of `KINDS`: bool (batch, query, key)."""
        texts = self.texts
        itself = torch.eye(self.seen.shape[-1], dtype=torch.bool, device=self.seen.device)
        others = self.seen & ~texts.same & ~itself
        of_keys = {kind: others & keys[:, None] for kind, keys in texts.kinds_of_keys.items()}
        own = {"itself": self.seen & itself, "same token": self.seen & texts.same}
        return {kind: (own | of_keys)[kind] for kind in KINDS}


def is_punctuation(token: Token, text: str) -> bool:
    """Whether a token of a text is made of punctuation and symbols alone.

    Args:
        token: any; special ones are none.
        text: that its offsets count in.
    """
    if token.is_special or token.start is None:
        return False
    piece = text[token.start : token.end].strip()
    return bool(piece) and all(unicodedata.category(sign)[0] in "PS" for sign in piece)
