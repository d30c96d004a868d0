"""The page Many texts: what every head does in general."""

from mha_viz.ui.widgets.messages.texts import Texts, read_texts

TEXTS = read_texts(__name__, Texts)
