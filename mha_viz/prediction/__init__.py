"""Predictions of models: logits, masks, generated text, loss."""
