"""Lab 5: what W_V and W_O do together."""
