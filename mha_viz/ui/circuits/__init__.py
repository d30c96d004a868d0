"""The Circuits page: how heads work together, across layers."""

from mha_viz.ui.widgets.messages.texts import PageTexts, read_texts

TEXTS = read_texts(__name__, PageTexts)
