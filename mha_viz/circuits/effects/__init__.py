"""Effects of activations, paths and edges on a behaviour; circuits chosen and tested."""
