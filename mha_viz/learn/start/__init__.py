"""The first page of Learn: one sentence of the reader's through a small model."""
