"""Tasks that ask a model for a behaviour, from templates and pairs."""
