"""Weights in files that can run code when they are read: how they are known, and what to do."""

from __future__ import annotations

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".pkl")  # how the names of such files end
HOW_TO_CONVERT = (
    "Where you trust it, convert it: load it with transformers' AutoModel.from_pretrained, write "
    "model and tokenizer with save_pretrained into a folder, and give that folder."
)
