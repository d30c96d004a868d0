"""Decisions and observations of whoever runs the server: limits, and figures."""
