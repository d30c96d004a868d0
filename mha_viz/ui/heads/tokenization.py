"""Sentences on how a text was cut into tokens: whole words, a split one, and another language."""

from collections.abc import Sequence

import streamlit as st

from mha_viz.checkpoints.catalog import shipped_language
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.word_pieces import WordPieces, word_pieces
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.labels import clean

MAX_EXAMPLES = 3  # words that are whole tokens
MAX_PIECES = 8  # of a word that is split


def pieces_line(tokens: Sequence[Token], text: str) -> str:
    """Name some words that are whole tokens, and a word that is not, with the reason."""
    pieces = word_pieces(tokens, text)
    lines = []
    if pieces.unsplit:
        examples = _quoted(tuple(dict.fromkeys(pieces.unsplit))[:MAX_EXAMPLES])
        lines.append(TEXTS("tokens.whole", examples=examples))
    if pieces.split:
        word, parts = pieces.split[0]
        named = _quoted(parts[:MAX_PIECES]) + " …" * (len(parts) > MAX_PIECES)
        kind = "parts" if len(parts) > 1 else "unknown"
        values = {"word": clean(word), "count": len(parts), "pieces": named}
        lines.append(TEXTS(f"tokens.{kind}", **values))
    return " ".join(lines)


def language_line(tokens: Sequence[Token], text: str, model: str) -> str:
    """Say that a model which reads English only is unlikely to read this text; "" where it may."""
    pieces: WordPieces = word_pieces(tokens, text)
    if not pieces.mostly_split or shipped_language(model) != "en":
        return ""
    n_split = len(pieces.split)
    return TEXTS(
        "tokens.english_only", model=model, split=n_split, count=n_split + len(pieces.unsplit)
    )


def text_notes(record: AttentionRecord) -> None:
    """Draw what to know about a text: that it was cut, or is largely unknown to the model."""
    language = language_line(record.tokens, record.text, record.model)
    for note in record.notes:
        if note.startswith(words.CUT) and not (language and note.startswith(words.UNKNOWN)):
            st.warning(plain(note), icon=":material/warning:")
    if language:
        st.warning(plain(language), icon=":material/translate:")


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join(f"“{clean(text)}”" for text in texts)
