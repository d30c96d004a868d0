"""Components drawn by scripts in the browser, and what they send back."""
