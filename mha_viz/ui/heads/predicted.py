"""Predictions of a model with all heads, and with some of them changed: before and after."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.core.layer_numbers import numbered
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError, TextError
from mha_viz.interventions.ablation import Ablation, compare
from mha_viz.prediction.generation import upcoming
from mha_viz.prediction.logits import mask_word_at, objective
from mha_viz.prediction.outcomes import ENDS
from mha_viz.prediction.predict import Prediction, predict
from mha_viz.ui.heads import TEXTS, targets
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.run.written import WrittenScene, shown
from mha_viz.ui.state.views import TITLES, HeadsView
from mha_viz.ui.widgets.messages import words
from mha_viz.web.payload import finite, notes_payload

TOP_K = 10
N_NEXT = 3  # tokens in the line under the sentence
N_SHOWN = 5  # of the likeliest tokens, beside the grid; the likeliest before is among them


def refusal(model: AttentionModel) -> str:
    """Say why heads of this model cannot be changed; "" where they can."""
    if model.backend != "mha_viz":
        return TEXTS("predicted.refusal", family=model.family)
    if model.network.config.is_encoder_decoder:
        return TEXTS("predicted.two_stacks")
    return "" if objective(model.network) else TEXTS("predicted.no_head")


def intervention(view: HeadsView) -> Intervention | None:
    """Return the view's intervention; None where no head is changed."""
    if not view.off:
        return None
    factor = view.factor if view.how == "scale" else 0.0
    source = view.source if view.how.startswith("patch") else None
    heads = numbered(view.off, view.layer_numbers)
    return Intervention(heads, view.how, factor, source=source)


def cache_key(change: Intervention) -> Hashable:
    """Return all that a run under this change depends on."""
    return (change.heads, change.how, change.factor, change.source)


def predicted(
    scene: Scene, model: AttentionModel, change: Intervention | None, position: int | None
) -> Prediction:
    """Run one forward pass, cached as long as nothing that it depends on changes."""

    def make() -> Prediction:
        with turn_for(model, scene.text + (scene.pair or "")):
            return predict(model, scene.text, None, change, TOP_K, position, text_pair=scene.pair)

    key = scene.key, "prediction", position, change and cache_key(change)
    return memory.cache().get(
        key,
        make,
        lambda prediction: (1 + len(prediction.other_predictions)) * prediction.log_probs.nbytes,
    )


def token_table(ablation: Ablation) -> pd.DataFrame:
    """Return the tokens' probabilities; what continues a word is marked, as no word of its own.

    Tokens of the text itself, where an answer starts or ends, come with their positions.
    """
    numbers = ablation.table()
    if ablation.before.objective in ENDS:
        return numbers.assign(
            token=[
                f"{n} · {label}" for n, label in zip(numbers["id"], numbers["token"], strict=True)
            ]
        )
    marks = numbers["continues_word"].map({True: "…", False: ""})
    return numbers.assign(token=marks + numbers["token"])


def word_pieces(scene: Scene) -> dict[int, str]:
    """Return the first text's words by number."""
    pieces: dict[int, str] = {}
    for token in scene.record.tokens:
        if token.word is not None and not token.segment and not token.is_special:
            pieces[token.word] = pieces.get(token.word, "") + token.text
    return pieces


def last_masked(scene: Scene, model: AttentionModel) -> tuple[Scene, str] | None:
    """Return the run of the text with its last word masked, and that word; None without a word."""
    pieces = [piece for piece in word_pieces(scene).items() if any(map(str.isalnum, piece[1]))]
    if not pieces:
        return None
    word, text = pieces[-1]
    try:
        return replace(scene, text=mask_word_at(model, scene.record.text, word)), text
    except MhaVizError:  # a tokenizer that cannot tell where its words stand
        return None


def where_in_words(prediction: Prediction, masked: str = "") -> str:
    """Name the place of a prediction; `masked` is the word in whose place it is made."""
    if masked:
        return TEXTS("predicted.masked_word", word=masked)
    token = prediction.tokens[prediction.position].text
    return TEXTS(f"predicted.where_{prediction.objective}", token=token)


def how_in_words(view: HeadsView) -> str:
    """Describe what is done to the changed heads."""
    how = TITLES["how_names"][view.how]
    if view.how == "scale":
        how += f" by {view.factor:g}"
    return f"{how} ({view.source[:100]})" if view.how.startswith("patch") else how


def lacks_source(scene: Scene, view: HeadsView) -> str:
    """Ask for the text from which outputs or weights are taken; "" where it is there or unused."""
    if not view.off or not view.how.startswith("patch") or view.source.strip():
        return ""
    return TEXTS("predicted.no_source", length=words.count(len(scene.record.labels), "token"))


class Comparison(NamedTuple):
    """A prediction with all heads as they are and with the view's changed."""

    ablation: Ablation
    where: str  # the place of the prediction, in words
    faults: list[str]  # what is wrong with the typed tokens to track


def compared(scene: Scene, model: AttentionModel, view: HeadsView) -> Comparison:
    """Compare the predictions at the view's place; that with all heads is made once for a text.

    A masked model without a gap predicts the last word. Raises TextError: there is no word.
    """
    position, masked = targets.position(scene, model, view), ""
    if objective(model.network) == "masked" and not targets.positions(scene, model):
        if (without_word := last_masked(scene, model)) is None:
            raise TextError(TEXTS("predicted.no_gap"))
        scene, masked = without_word
    change = intervention(view)
    before = after = targets.shown_end(predicted(scene, model, None, position), view)
    if change is not None:
        after = targets.shown_end(predicted(scene, model, change, position), view)
    (target, against), faults = targets.tracked(model, before, view)
    nothing = Intervention([(model.layer_numbers[0], 0)], "scale", factor=1.0)
    ablation = compare(model, before, after, change or nothing, target=target, against=against)
    return Comparison(ablation, where_in_words(ablation.before, masked), faults)


def predicts(scene: Scene, view: HeadsView) -> bool:
    """Return whether the model predicts what is behind this text or in its gaps.

    False for a stored run, which does not wait for its model.
    """
    if scene.stored is not None:
        return False
    model = memory.model(*view.checkpoint)
    kind = objective(model.network)
    return kind == "causal" or (kind == "masked" and bool(targets.positions(scene, model)))


def _likeliest(scene: Scene, model: AttentionModel) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return the likeliest tokens behind the text, or at each gap, with the place's name."""
    if objective(model.network) == "causal":
        if isinstance(scene, WrittenScene):  # its last step knows
            coming = shown(scene, model).coming
        else:
            coming = upcoming(model, scene.text, scene.pair)
        return [("Next", [(each.text, each.probability) for each in coming.candidates[:N_NEXT]])]
    first = predicted(scene, model, None, None)
    gaps = sorted((first, *first.other_predictions), key=lambda gap: gap.position)
    names = ["[MASK]"] if len(gaps) == 1 else [f"[MASK] {i + 1}" for i in range(len(gaps))]
    tokens = (list(zip(gap.candidates, gap.probabilities, strict=True))[:N_NEXT] for gap in gaps)
    return list(zip(names, tokens, strict=True))


def prediction_payload(scene: Scene, grid: bytes, view: HeadsView) -> bytes:
    """Pack the likeliest tokens, before and after some heads are switched off where any are.

    What keeps the model from a prediction without them comes as a sentence in their place.
    """
    how = "" if view.how == "zero" else how_in_words(view)
    notes: dict[str, Any] = {"off": [list(head) for head in view.off], "how": how}
    model = memory.model(*view.checkpoint)
    try:
        if not view.off:
            make = partial(_likeliest, scene, model)
            notes["next"] = memory.cache().get((scene.key, "likeliest"), make, lambda token: 500)
        elif message := refusal(model) or lacks_source(scene, view):
            notes["message"] = message
        else:
            notes |= _before_and_after(*compared(scene, model, view)[:2])
    except MhaVizError as error:
        notes["message"] = str(error)
    return notes_payload(grid, "prediction", notes)


def _before_and_after(ablation: Ablation, where: str) -> dict[str, Any]:
    before, after = ablation.before.value, ablation.after.value
    if before is not None and after is not None:
        return {"where": where, "numbers": finite(np.array([before, after]))}
    table = token_table(ablation).sort_values("after", ascending=False, kind="stable")
    shown = table.head(N_SHOWN)
    if (likeliest := table["before"].idxmax()) not in shown.index:  # it fell far
        shown = pd.concat([shown.head(N_SHOWN - 1), table.loc[[likeliest]]])
    rows = shown[["token", "before", "after"]].to_numpy().tolist()
    return {"where": where, "rows": rows, "kl": finite(np.array([ablation.kl]))[0]}
