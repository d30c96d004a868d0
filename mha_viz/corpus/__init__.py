"""Many texts: read, batched, reduced in the pass, stored and searched."""
