"""Positions of a prediction, and the tokens, classes or answers that are tracked there."""

from collections.abc import Sequence

from mha_viz.core.record.attention_record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.ablation import of_end
from mha_viz.prediction.logits import OF_TEXTS, objective
from mha_viz.prediction.outcomes import ENDS, class_names, context_tokens, own_tokens
from mha_viz.prediction.predict import Prediction
from mha_viz.text.encoding import id_of
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import Shared
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words

_TITLES = {"causal": "Prediction after", "masked": "Prediction at", "token_class": "Class of"}
_WIDTH = 150


def is_language_model(model: AttentionModel) -> bool:
    """Return whether a model predicts tokens of its vocabulary, and no classes or answers."""
    return objective(model.network) in ("causal", "masked")


def _has_positions(model: AttentionModel) -> bool:
    return objective(model.network) not in (*OF_TEXTS, "answer")


def positions(scene: Scene, model: AttentionModel) -> dict[int, str]:
    """Return the names of a prediction's positions, -1 for the usual one; none without a gap."""
    labels, tokens, kind = scene.record.labels, scene.record.tokens, objective(model.network)
    if kind in OF_TEXTS:
        return {-1: "the whole text"}
    if kind == "answer":
        return {-1: "the start of the answer", 1: "its end"}
    if kind == "token_class":
        first, *later = own_tokens(tokens)
        return {position: f"{position} · {labels[position]}" for position in later} | {
            -1: labels[first]
        }
    if kind == "causal":
        return {-1: "the last token", **words.position_names(labels)}
    mask = model.tokenizer.mask_token_id
    gaps = [i for i, token in enumerate(tokens) if token.id == mask]
    after = {position: f"{position} · {labels[position]}" for position in gaps[1:]}
    return {-1: "the first gap", **after} if gaps else {}


def position(scene: Scene, model: AttentionModel, view: Shared) -> int | None:
    """Return the view's position where this model predicts at single tokens; None: the usual."""
    is_usual = view.position < 0 or not _has_positions(model)
    return None if is_usual or view.position not in positions(scene, model) else view.position


def shown_end(prediction: Prediction, view: Shared) -> Prediction:
    """Return the prediction of the end of an answer that the view shows; others as they are."""
    is_answer = prediction.objective in ENDS
    return of_end(prediction, ENDS[view.position == 1]) if is_answer else prediction


def boxes(scene: Scene, model: AttentionModel, view: Shared, *, has_against: bool = True) -> None:
    """Draw the choice of a position, of what to track there, and of what it is compared with."""
    offered = positions(scene, model)
    if len(offered) > 1 or (offered and _has_positions(model)):
        title, shown = _TITLES.get(str(objective(model.network)), "Prediction of"), view.position
        options = choosing.Look(width=170, displayed=shown if shown in offered else -1)
        choosing.menu("position", title, dict(sorted(offered.items())), **options)
    if is_language_model(model):
        choosing.token_boxes(_WIDTH)
    else:
        _outcome_menus(scene, model, view, has_against)


def _outcome_menus(scene: Scene, model: AttentionModel, view: Shared, has_against: bool) -> None:
    kind, outcomes = objective(model.network), offered_outcomes(model, scene.record.tokens)
    menus = {"target": "Token to track" if kind == "answer" else "Class to track"}
    menus |= {"against": "Compared with"} if has_against and kind != "multi_label" else {}
    for name, label in menus.items() if outcomes else ():
        chosen = getattr(view, name)
        options = choosing.Look(width=_WIDTH, displayed=chosen if chosen in outcomes else "")
        choosing.menu(name, label, {"": "(none)"} | outcomes, **options)


def offered_outcomes(model: AttentionModel, tokens: Sequence[Token]) -> dict[str, str]:
    """Return the classes of a classifier, or the tokens where an answer may start or end."""
    kind = objective(model.network)
    if kind == "answer":
        return {str(i): f"{i} · {tokens[i].text}" for i in context_tokens(tokens)}
    if kind == "regression" or is_language_model(model):
        return {}
    return {name: name for name in class_names(model.network)}


def tracked(
    model: AttentionModel, before: Prediction, view: Shared
) -> tuple[list[str | int | None], list[str]]:
    """Return the tokens or classes to track, and what is wrong with those that are none."""
    targets, faults = list[str | int | None](), list[str]()
    offered = offered_outcomes(model, before.tokens)
    for typed in (view.target, view.against):
        number: str | int | None = None
        try:
            if offered:
                end = f"{before.objective}:" if before.objective in ENDS else ""
                number = f"{end}{typed}" if typed in offered else None
            elif typed.strip() and is_language_model(model):
                number = id_of(model.tokenizer, typed, before.spaced)
        except MhaVizError as error:
            faults.append(str(error))
        targets.append(number)
    is_alone = targets[0] is None or before.objective == "multi_label"
    return [targets[0], None if is_alone else targets[1]], faults
