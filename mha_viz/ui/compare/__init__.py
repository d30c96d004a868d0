"""The Compare page: heads across layers, with each other, between texts and models."""
