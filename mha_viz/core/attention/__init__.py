"""Attention computed: the one function, the module around it, checks of what goes in."""
