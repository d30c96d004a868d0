"""Lab 13: an induction circuit, taken apart."""
