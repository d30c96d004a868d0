"""A text while a model writes it, in Streamlit: its tokens, their runners-up, play and step.

What is drawn, and when the next token is asked for, is decided in written_text.js.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any

from mha_viz.prediction.generation import Candidate, GeneratedToken
from mha_viz.ui.run.written import Shown
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.components.component import component, event_of, validate_step

_component = component("written_text")


def written_text(
    written: Shown,
    *,
    most: int,
    ends: Container[int],
    status: str,
    key: str,
    on_step: Callable[[int, bool], object],
    on_branch: Callable[[int, int], object],
) -> None:
    """Draw what is written; a click or the player asks for a step or a branch.

    - `most`: how many tokens can be written.
    - `ends`: the tokens that end a text, which cannot be chosen.
    - `on_step`: called with the number of tokens asked for, and whether more will follow.
    - `on_branch`: called with a position in the text and the token to stand there.
    """
    n, tokens = len(written.tokens), written.tokens
    coming = None if n >= most else written.coming
    last = n if written.finished else most

    @guarded
    def step() -> None:
        sent = validate_step(from_browser(key), last + 1)
        if sent is not None:
            on_step(*sent)

    @guarded
    def branch() -> None:
        every = [*tokens, coming] if coming else tokens
        chosen = validate_branch(from_browser(key), every)
        if chosen is not None:
            on_branch(*chosen)

    data = {
        "tokens": [_as_data(token, ends) for token in tokens],
        "coming": coming and _as_data(coming, ends),
        "last": last,
        # Where tokens are drawn, the probability of being drawn is shown, too.
        "drawing": written.scene.temperature > 0,
        "said": status,
    }
    _component(key=key, data=data, on_step_change=step, on_branch_change=branch)


def validate_branch(event: Any, tokens: Sequence[GeneratedToken]) -> tuple[int, int] | None:
    """Return the position and the token that was chosen; None for anything else.

    >>> other = Candidate("dog", 2, 0.3, 0.3)
    >>> tokens = [GeneratedToken("cat", 7, 0.6, 0.6, position=4, candidates=(other,))]
    >>> validate_branch({"branch": {"at": 4, "id": 2}}, tokens)
    (4, 2)
    >>> bad = [{"at": 5, "id": 2}, {"at": 4, "id": 3}, {"at": True, "id": 2}, {"at": 4}, [4, 2], 4]
    >>> [validate_branch({"branch": sent}, tokens) for sent in bad]
    [None, None, None, None, None, None]
    """
    sent = event_of(event, "branch")
    at, number = sent.get("at"), sent.get("id")
    if type(at) is not int or type(number) is not int:
        return None
    offered = {token.position: {candidate.id for candidate in token.candidates} for token in tokens}
    return (at, number) if number in offered.get(at, ()) else None


def _as_data(token: GeneratedToken, ends: Container[int]) -> dict[str, Any]:
    runners_up = [
        _shared(candidate, ends) | {"id": candidate.id}
        for candidate in token.candidates
        if candidate.id != token.id
    ]
    facts = {name: getattr(token, name) for name in ("position", "rank", "branched")}
    return _shared(token, ends) | facts | {"others": runners_up}


def _shared(candidate: Candidate, ends: Container[int]) -> dict[str, Any]:
    return {
        "text": candidate.text,
        "probability": round(candidate.probability, 6),
        "drawn_with": round(candidate.drawn_with, 6),
        "ends": candidate.id in ends,
    }
