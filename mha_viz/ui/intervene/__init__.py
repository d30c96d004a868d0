"""The Intervene page: heads switched off, and what the model predicts then."""
