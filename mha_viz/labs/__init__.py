"""The numbers behind the Learn section: small experiments made of the project's own attention.

A module a lab, and each function in it says what its lab claims; tests assert that it holds.
"""
