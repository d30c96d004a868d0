"""Texts to tokens: cleaning, encoding, labels of tokens, the vocabulary."""
