"""Lab 14: heads that share their keys, and what a model keeps of the past."""
