"""Numbers only: torch and numpy. Knows no model library, no picture, no screen."""
