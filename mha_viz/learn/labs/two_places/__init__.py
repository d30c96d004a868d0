"""Lab 3: one head cannot keep two places apart."""
