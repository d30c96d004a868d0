"""The Circuits page: how heads work together, across layers."""
