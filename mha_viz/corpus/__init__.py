"""Many texts: what every head does over a corpus, with counts, intervals and baselines."""

from mha_viz.extras import require

require("study", "A study of many texts")
