"""Circuits of edges: effects from writer to reader, chosen and tested."""
