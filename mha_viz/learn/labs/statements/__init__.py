"""Lab 10: textbook statements, measured on the model at hand."""
