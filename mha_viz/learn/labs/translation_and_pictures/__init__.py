"""The lab of two applications: heads that align a translation, and heads that read digits."""
