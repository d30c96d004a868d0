"""The Why page: what made a prediction, a score, a connection, and what tests it."""

from mha_viz.ui.widgets.messages.texts import PageTexts, read_texts

TEXTS = read_texts(__name__, PageTexts)
