"""Totals over texts, their intervals, and the labels that hold over a corpus."""
