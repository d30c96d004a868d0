"""Heads switched off or changed, and the effect: ablation, importance, pruning, robustness."""
