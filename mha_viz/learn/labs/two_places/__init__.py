"""Lab 3: one head cannot look at two places."""
