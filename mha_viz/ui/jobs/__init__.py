"""Turns and heavy work: short work first, heavy jobs in a lane of their own, fair turns."""
