"""Measurements of speed against peers and aims: `python -m benchmarks`."""
