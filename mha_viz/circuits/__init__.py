"""Heads working together across layers: decompositions whose parts sum to the whole."""
