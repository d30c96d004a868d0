"""One module a page: pick, compute, draw."""
