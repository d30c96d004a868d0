"""Lab 4: one real head, step by step."""
