"""Controls with which a visitor chooses model, text and heads."""
