"""The numbers behind the Learn section: small experiments made of the project's own attention.

Knows models; must not know figures or screens. A module a lab, and each function in it
says what its lab claims; tests assert that it holds.
"""
