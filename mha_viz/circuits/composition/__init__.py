"""Circuits by the weights alone: composition of heads, and what each does token to token."""
