"""The command `mha-viz`."""
