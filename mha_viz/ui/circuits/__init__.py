"""The Circuits page: how heads work together, across layers."""

from mha_viz.ui.widgets.messages.texts import Texts, read_texts

TEXTS = read_texts(__name__, Texts)
