"""Lab 6: heads with relative positions as a convolution."""
