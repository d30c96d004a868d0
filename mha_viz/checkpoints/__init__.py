"""A name, folder or Hub id to a checked network, with every check that a checkpoint needs."""
