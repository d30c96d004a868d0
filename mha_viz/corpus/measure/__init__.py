"""One batch of texts through a model, reduced to sums for each head while it runs."""
