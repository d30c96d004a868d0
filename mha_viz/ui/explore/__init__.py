"""The Explore page's parts: all heads, one head's pictures, its card."""
