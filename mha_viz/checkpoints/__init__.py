"""Checkpoints: from a name, folder or Hub id to a network, with every check that they need."""
