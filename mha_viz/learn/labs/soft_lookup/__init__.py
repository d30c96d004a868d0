"""Lab 1: attention as soft lookup."""
