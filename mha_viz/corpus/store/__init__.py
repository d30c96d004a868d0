"""The folder of a study: atomic files, locks, identity, checks, and tables to ask in SQL."""
