"""What the tokens of a head's spaces are coloured by, and the figure's numbers."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.errors import ArgumentError
from mha_viz.paper.space_figures import colourings, spaces_figure, token_colours

N = 211


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(shipped_folder() / "tiny-bert" / FOLDER)


@pytest.fixture(scope="module")
def spaces(study: Study) -> mv.HeadSpaces:
    model = mv.load("tiny-bert")
    return mv.head_spaces(model, study.sample_texts(43), 1, 3, max_tokens=N)


def test_parts_of_speech_are_those_of_the_gold_trees(study: Study, spaces: mv.HeadSpaces) -> None:
    colours = token_colours(study, spaces, "speech")
    ids = dict(study.sql("SELECT text, text_id FROM sentences").itertuples(index=False))
    checked = 0
    for token, text, shown in zip(spaces.tokens, spaces.text, colours.values, strict=True):
        name = colours.names[shown]
        if token.is_special:
            assert name in ("special token", "other")
            continue
        words = study.sentence(ids[spaces.texts[int(text)]]).words
        parts = {word.upos for word in words if word.start <= token.start < word.end}
        assert name in parts or (name == "other" and parts.isdisjoint(colours.names))
        checked += 1
    assert checked > N / 2 and len(colours.names) == 8


def test_frequent_tokens_have_a_colour_each(study: Study, spaces: mv.HeadSpaces) -> None:
    colours = token_colours(study, spaces, "token")
    labels = np.array([token.text for token in spaces.tokens])
    names, counts = np.unique(labels, return_counts=True)
    assert colours.names[-1] == "other"
    least = min(counts[names == name].item() for name in colours.names[:-1])
    assert least >= np.sort(counts)[-7]
    for name, shown in zip(labels, colours.values, strict=True):
        assert colours.names[shown] in (name, "other")


def test_kinds_positions_and_received_weights(study: Study, spaces: mv.HeadSpaces) -> None:
    kinds = token_colours(study, spaces, "kind")
    of_token = {token: kinds.names[i] for token, i in zip(spaces.tokens, kinds.values, strict=True)}
    for token, kind in of_token.items():
        assert (kind == "special token") == token.is_special
        assert (kind == "punctuation") == (not any(map(str.isalnum, token.text)))
    assert {"first piece of a word", "later piece of a word"} <= set(kinds.names)
    for by, numbers in {"position": spaces.position, "received": spaces.received}.items():
        colours = token_colours(study, spaces, by)
        assert colours.names == () and np.array_equal(colours.values, numbers.numpy())
    with pytest.raises(ArgumentError, match="colour"):
        token_colours(study, spaces, "colour")
    assert "speech" in colourings(study)


def test_the_figure_shows_the_coordinates_that_its_table_has(study, spaces) -> None:
    figure = spaces_figure(spaces, token_colours(study, spaces), (2, 4))
    drawn = figure.draw(dark=True)
    for trace, space in zip(drawn.data, ("queries", "keys", "values", "outputs"), strict=False):
        assert np.array_equal(trace.x, figure.table[f"{space} 3"])
        assert np.array_equal(trace.y, figure.table[f"{space} 5"])
    share = float(spaces.explained[0, 2])
    assert drawn.layout.xaxis.title.text == f"PC 3: {100 * share:.3g} %"
    assert "L1 H3" in figure.caption and f"{N} tokens" in figure.caption
    with pytest.raises(ArgumentError, match="several panels"):
        figure.image("svg")
    with pytest.raises(ArgumentError, match="component"):
        spaces_figure(spaces, token_colours(study, spaces), (0, 1), (0, 8))
