"""Texts out of files of several kinds, samples of them, and streams that can be read only once."""
