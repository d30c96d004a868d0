"""Lab 2: attention without weights looks at itself."""
