"""Spaces of a head over the texts of a study: what tokens are coloured by, and the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from mha_viz.core.amounts import format_number
from mha_viz.core.compare.token_spaces import SPACES, HeadSpaces
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.reprs import count
from mha_viz.corpus.measure.padded import is_punctuation
from mha_viz.corpus.query.study import Study
from mha_viz.errors import ArgumentError
from mha_viz.paper.figures import StudyFigure
from mha_viz.plots.space_scatter import N_COLOURS, SpacePanel, TokenColours, space_scatter

COLOURINGS = {
    "kind": "Kind of token",
    "token": "Frequent tokens",
    "position": "Position",
    "received": "Weight received",
    "speech": "Part of speech",
}
_OTHER, _SPECIAL = "other", "special token"
_KINDS = ("first piece of a word", "later piece of a word", "punctuation", _SPECIAL)


def colourings(study: Study) -> dict[str, str]:
    """Return what tokens can be coloured by: parts of speech where there are gold trees."""
    tables = study.sql("SELECT table_name FROM information_schema.tables")["table_name"]
    has_words = study.has_trees and {"words", "sentences"} <= set(tables)
    return {key: title for key, title in COLOURINGS.items() if key != "speech" or has_words}


def token_colours(study: Study, spaces: HeadSpaces, by: str = "kind") -> TokenColours:
    """Return what the tokens of a head's spaces are coloured by.

    Of tokens and parts of speech the seven most frequent have a colour each, all others one.

    Raises ArgumentError: an unknown colouring, or parts of speech of a study without gold trees.
    """
    offered = colourings(study)
    if by not in offered:
        raise ArgumentError(f"by must be one of {', '.join(offered)}, got {by!r}.")
    if by == "position":
        return TokenColours("position", spaces.position.numpy())
    if by == "received":
        return TokenColours("weight received", spaces.received.numpy())
    if by == "kind":
        kinds = [_kind(spaces, number) for number in range(len(spaces.tokens))]
        return _categories(COLOURINGS[by], kinds, _KINDS)
    if by == "token":
        labels = [token.text for token in spaces.tokens]
    else:
        labels = _parts_of_speech(study, spaces)
    frequent = [name for name, _ in Counter(labels).most_common() if name != _OTHER]
    named = frequent[: N_COLOURS - 1]
    labels = [label if label in named else _OTHER for label in labels]
    return _categories(COLOURINGS[by], labels, (*named, _OTHER))


def _categories(title: str, labels: Sequence[str], names: Sequence[str]) -> TokenColours:
    present = tuple(name for name in names if name in set(labels))
    return TokenColours(title, np.array([present.index(label) for label in labels]), present)


def _kind(spaces: HeadSpaces, number: int) -> str:
    token, text = spaces.tokens[number], spaces.texts[int(spaces.text[number])]
    if token.is_special or token.start is None:
        return _SPECIAL
    if is_punctuation(token, text):
        return "punctuation"
    inside = token.start > 0 and text[token.start - 1].isalnum() and text[token.start].isalnum()
    return _KINDS[1] if inside else _KINDS[0]


def _parts_of_speech(study: Study, spaces: HeadSpaces) -> list[str]:
    """Return the part of speech of the first word that each token spells; `_OTHER` of none."""
    quoted = ", ".join("'" + text.replace("'", "''") + "'" for text in dict.fromkeys(spaces.texts))
    rows = study.sql(
        f"""SELECT text, upos, unnest(words.tokens) AS position
        FROM words JOIN sentences USING (text_id) WHERE text IN ({quoted})
        ORDER BY word DESC"""
    )
    positions = zip(rows["text"], rows["position"].astype(int), strict=True)
    of_token = dict(zip(positions, rows["upos"], strict=True))
    return [
        _SPECIAL if token.is_special else of_token.get((spaces.texts[text], position), _OTHER)
        for token, text, position in zip(
            spaces.tokens, spaces.text.tolist(), spaces.position.tolist(), strict=True
        )
    ]


def space_panels(spaces: HeadSpaces, components: tuple[int, int] = (0, 1)) -> list[SpacePanel]:
    """Lay out the tokens in each space on two of its components, counted from 0.

    Raises ArgumentError: no such component.
    """
    first, second = spaces.check_components(components)
    return [
        SpacePanel(
            name.capitalize(),
            spaces.coordinates[space][:, [first, second]].numpy(),
            (_axis(spaces, space, first), _axis(spaces, space, second)),
        )
        for space, name in enumerate(SPACES)
    ]


def spaces_figure(
    spaces: HeadSpaces, colours: TokenColours, *components: tuple[int, int]
) -> StudyFigure:
    """Make the picture of a head's four spaces on pairs of their components, counted from 0.

    Without `components` these are the first two. Raises ArgumentError: no such component.
    """
    pairs = components or ((0, 1),)
    panels = [panel for pair in pairs for panel in space_panels(spaces, pair)]
    table = spaces.table(sorted({component for pair in pairs for component in pair}))
    if colours.names:
        shown = [colours.names[i] for i in colours.values.tolist()]
        table.insert(3, colours.title, shown)
    positions = np.stack([spaces.text.numpy(), spaces.position.numpy()], 1).astype(np.int32)
    labels = [token.text for token in spaces.tokens]
    draw = partial(space_scatter, panels, colours, labels, positions)
    name = head_name(spaces.layer, spaces.head)
    axes = "; ".join(" and ".join(f"PC {component + 1}" for component in pair) for pair in pairs)
    about = f"{count(len(labels), 'token')} of {count(len(spaces.texts), 'text')}"
    caption = " · ".join((spaces.model, about, name, axes, f"colour: {colours.title}"))
    return StudyFigure(f"Spaces of {name} on {axes}", draw, table, caption)


def _axis(spaces: HeadSpaces, space: int, component: int) -> str:
    """Return the name of a component with its share of the variance."""
    share = float(spaces.explained[space, component])
    variance = f"{format_number(100 * share)} %" if share == share else "no variance"
    return f"PC {component + 1}: {variance}"
