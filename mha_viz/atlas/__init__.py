"""The atlas of a study: a static site with a page for each head, which needs no server."""

from mha_viz.extras import require

require("study", "An atlas")
