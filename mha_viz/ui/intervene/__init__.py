"""The Intervene page: heads switched off, and what the model predicts then."""

from mha_viz.ui.widgets.messages.texts import PageTexts, read_texts

TEXTS = read_texts(__name__, PageTexts)

# Parts of the page that run by themselves, as fragments of these keys.
HEADS, ANSWER, CONTROLS, CHART, MORE = (
    f"intervene-{name}" for name in ("heads", "answer", "controls", "chart", "more")
)
AFTER_TEXT = HEADS, ANSWER  # run when a text is typed; all else follows with the whole page
