"""One forward pass with our attention inside a pretrained model: keep, reduce, change."""
