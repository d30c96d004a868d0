"""The browser's side: the components' sources, the bytes they take, standalone pages."""
