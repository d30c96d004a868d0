"""The Corpus page: every head over many texts."""

from mha_viz.ui.widgets.messages.texts import Texts, read_texts

TEXTS = read_texts(__name__, Texts)
