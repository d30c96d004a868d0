"""What a visitor has chosen, and what outlives one run of a page."""
