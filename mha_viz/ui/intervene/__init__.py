"""The Intervene page: heads switched off, and what the model predicts then."""

from mha_viz.ui.widgets.messages.texts import Texts, read_texts

TEXTS = read_texts(__name__, Texts)
