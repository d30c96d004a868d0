"""What is fast is measured here, against peers and aims: `python -m benchmarks`."""
