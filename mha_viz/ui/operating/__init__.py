"""Limits that the operator of the server sets, and figures that the operator reads."""
