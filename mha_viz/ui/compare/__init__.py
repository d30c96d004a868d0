"""The Compare page: heads across layers, with each other, between texts and models."""

from mha_viz.ui.widgets.messages.texts import Texts, read_texts

TEXTS = read_texts(__name__, Texts)
