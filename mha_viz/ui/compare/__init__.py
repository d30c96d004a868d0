"""The Compare page: heads across layers, with each other, between texts and models."""

from mha_viz.ui.widgets.messages.texts import PageTexts, read_texts

TEXTS = read_texts(__name__, PageTexts)
