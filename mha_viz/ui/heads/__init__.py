"""The Heads page's parts: all heads, one head's pictures, its card."""

from mha_viz.ui.widgets.messages.texts import PageTexts, read_texts

TEXTS = read_texts(__name__, PageTexts)
WORDS = "head-words"  # the key of the section of a head's words
