"""Lab 8: what attention costs, calculated and measured."""
