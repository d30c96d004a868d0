"""Heads switched off or changed, and what that does: ablation, importance, pruning, robustness."""
