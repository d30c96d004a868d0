"""Gold trees of CoNLL-U, and heads held against relations, parts of speech and mentions."""
