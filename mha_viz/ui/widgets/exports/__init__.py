"""Figures, and files and links to keep."""
