"""What runs in a browser: the components' sources, the bytes they take, standalone pages."""
