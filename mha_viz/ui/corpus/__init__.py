"""The Corpus page: every head over many texts."""
