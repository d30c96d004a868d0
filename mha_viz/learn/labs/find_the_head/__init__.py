"""Lab 11: a game of finding heads."""
