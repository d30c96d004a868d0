"""Browser components of our own: plain ES modules, no CDN, no build step."""
