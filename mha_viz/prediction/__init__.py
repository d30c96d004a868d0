"""What a model says: logits, masks, predictions, generated text, loss."""
