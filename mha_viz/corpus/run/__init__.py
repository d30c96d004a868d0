"""A study made, on this machine or on a cluster."""
