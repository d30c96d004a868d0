"""A visitor's choices, and the address that carries them."""
