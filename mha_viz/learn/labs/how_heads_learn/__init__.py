"""Lab 9: a tiny model learns induction, and its heads are recorded on the way."""
