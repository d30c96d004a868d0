"""A residual stream, its logits and its scores as sums of what each component wrote."""
