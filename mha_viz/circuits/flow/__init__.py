"""The graph of what flows into a token, layer by layer."""
