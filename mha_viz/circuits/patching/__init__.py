"""Path patching: the effect of what one head writes through what another head reads."""
