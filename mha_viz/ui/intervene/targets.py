"""Places of a prediction, and the tokens, classes or ends of an answer that are followed there."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mha_viz.core.record.record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.ablation import of_end
from mha_viz.prediction.logits import OF_TEXTS, objective
from mha_viz.prediction.outcomes import ENDS, class_names, context_tokens, own_tokens
from mha_viz.prediction.prediction import Prediction
from mha_viz.prediction.targets import NUMBER
from mha_viz.text.encoding import id_of
from mha_viz.ui.intervene import TEXTS
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain

_TITLES = {"causal": "Prediction after", "masked": "Prediction at", "token_class": "Class of"}
_WIDTH = 150


def is_language_model(model: AttentionModel) -> bool:
    """Return whether a model predicts tokens of its vocabulary, and no classes or answers."""
    return objective(model.network) in ("causal", "masked")


def has_positions(model: AttentionModel) -> bool:
    """Return whether a model predicts at single tokens."""
    return objective(model.network) not in (*OF_TEXTS, "answer")


def places(scene: Scene, model: AttentionModel) -> dict[int, str]:
    """Return the places of a prediction by name, -1 for the usual one; none without a gap."""
    labels, tokens, kind = scene.record.labels, scene.record.tokens, objective(model.network)
    if kind in OF_TEXTS:
        return {-1: "the whole text"}
    if kind == "answer":
        return {-1: "the start of the answer", 1: "its end"}
    if kind == "token_class":
        first, *later = own_tokens(tokens)
        return {place: f"{place} · {labels[place]}" for place in later} | {-1: labels[first]}
    if kind == "causal":
        return {-1: "the last token", **words.places(labels)}
    mask = model.tokenizer.mask_token_id
    gaps = [i for i, token in enumerate(tokens) if token.id == mask]
    after = {place: f"{place} · {labels[place]}" for place in gaps[1:]}
    return {-1: "the first gap", **after} if gaps else {}


def followed_end(prediction: Prediction) -> Prediction:
    """Return the prediction of the end of an answer that the page shows; others as they are."""
    if prediction.objective not in ENDS:
        return prediction
    return of_end(prediction, ENDS[state.of(Intervene).place == 1])


def boxes(scene: Scene, model: AttentionModel, also: Callable[[], None]) -> None:
    """Draw the choice of a place, of what to track there, and of what it is compared with."""
    offered, kind = places(scene, model), objective(model.network)
    if has_positions(model) or len(offered) > 1:
        title = _TITLES.get(str(kind), "Prediction of")
        choosing.menu("place", title, dict(sorted(offered.items())), width=170, also=also)
    if is_language_model(model):
        controls.token_boxes(_WIDTH, also=also)
        return
    outcomes = offered_outcomes(model, scene.record.tokens)
    menus = {"target": ("Token to track" if kind == "answer" else "Class to track", "(none)")}
    menus |= {"against": ("Compared with", "(none)")} if kind != "multi_label" else {}
    for name, (label, none) in menus.items() if outcomes else ():
        chosen = getattr(state.of(Intervene), name)
        shown = chosen if chosen in outcomes else ""
        looks: dict[str, Any] = {"displayed": shown, "width": _WIDTH, "also": also}
        choosing.menu(name, label, {"": none} | outcomes, **looks)


def offered_outcomes(model: AttentionModel, tokens: Sequence[Token]) -> dict[str, str]:
    """Return the classes of a classifier, or the tokens where an answer may start or end."""
    kind = objective(model.network)
    if kind == "answer":
        return {str(i): f"{i} · {tokens[i].text}" for i in context_tokens(tokens)}
    if kind == "regression" or is_language_model(model):
        return {}
    return {name: name for name in class_names(model.network)}


def tracked(model: AttentionModel, before: Prediction) -> tuple[list[str | int | None], list[str]]:
    """Return the tokens or classes to track, and what is wrong with those that are none."""
    view, found, faults = state.of(Intervene), list[str | int | None](), list[str]()
    offered = offered_outcomes(model, before.tokens)
    for typed in (view.target, view.against):
        number: str | int | None = None
        try:
            if offered:
                number = _outcome(before, typed) if typed in offered else None
            elif typed.strip() and is_language_model(model):
                number = id_of(model.tokenizer, typed, before.spaced)
        except MhaVizError as error:
            faults.append(str(error))
        found.append(number)
    alone = found[0] is None or before.objective == "multi_label"
    return [found[0], None if alone else found[1]], faults


def _outcome(before: Prediction, chosen: str) -> str:
    return f"{before.objective}:{chosen}" if before.objective in ENDS else chosen


class Followed(NamedTuple):
    """The outcome that importance is measured for."""

    labels: str | None  # as `head_importance` takes it
    sentence: str = ""  # about it
    one_text: bool = False  # it is at a token, which other texts do not have


def followed(scene: Scene, model: AttentionModel) -> Followed:
    """Return what importance is measured for: the tracked class or token, if one is chosen."""
    view, kind = state.of(Intervene), objective(model.network)
    if kind == "regression":
        return Followed(None, NUMBER)
    if is_language_model(model):
        return Followed(None)
    tokens = scene.record.tokens
    offered = offered_outcomes(model, tokens)
    chosen = view.target if view.target in offered else ""
    name = plain(offered.get(chosen, ""))
    if kind == "answer":
        end = ENDS[view.place == 1]
        if not chosen:
            return Followed(end, TEXTS("importance.end", end=end))
        return Followed(f"{end}:{chosen}", TEXTS("importance.label", name=f"{end} {name}"), True)
    if not chosen:
        return Followed(None, TEXTS("importance.own_classes"))
    if kind != "token_class":
        return Followed(chosen, TEXTS("importance.label", name=name))
    place = own_tokens(tokens)[0] if view.place < 0 else view.place
    where = f"{name} at {place} · {plain(tokens[place].text)}"
    return Followed(f"{place}:{chosen}", TEXTS("importance.label", name=where), True)
