"""Many texts: what every head does over a corpus, with counts, intervals and baselines."""
