"""A study on paper: its figures, at the width of a column, and a report of all of it."""

from mha_viz.extras import require

require("study", "A report")
