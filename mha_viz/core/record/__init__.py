"""A record of one run: its fields, its checks, its file, and views that leave tokens out."""
