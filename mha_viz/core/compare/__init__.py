"""Comparisons of texts and heads: aligned tokens, likeness by chance, heads that are alike."""
