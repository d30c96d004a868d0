"""A finished study, and the questions that it answers."""
