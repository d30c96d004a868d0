"""What the model predicts, small under the sentence: what comes next, or what stands at [MASK]."""

from __future__ import annotations

from collections.abc import Iterable

from streamlit.delta_generator import DeltaGenerator

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.prediction.generated_token import upcoming
from mha_viz.prediction.logits import objective
from mha_viz.prediction.prediction import predict
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.written import WrittenScene, shown
from mha_viz.ui.widgets.messages import plain

TOP = 3
WAIT = "Predicting …"


def announce(row: DeltaGenerator, scene: Scene) -> DeltaGenerator | None:
    """The line under the sentence, where the model predicts something; filled by `fill`.

    The prediction takes a pass of its own, so that it comes after the pictures; until then the line
    says so.

    Args:
        row: its place on the page.
        scene: what the page shows.

    Returns:
        The line; None where there is nothing to predict.
    """
    if not _predicts(memory.model(*state.current().checkpoint), scene):
        return None
    line = row.empty()
    line.caption(memory.cache().find((scene.key, "says")) or WAIT)
    return line


def fill(line: DeltaGenerator, scene: Scene) -> None:
    """What the model predicts of the scene, found or computed now.

    Args:
        line: that `announce` made.
        scene: what the page shows.
    """
    model = memory.model(*state.current().checkpoint)
    try:
        words = memory.cache().get((scene.key, "says"), lambda: _words(scene, model), len)
    except MhaVizError:  # said where it matters, in Intervene; here it is a line less
        words = ""
    if words:
        line.caption(words)
    else:
        line.empty()


def _predicts(model: AttentionModel, scene: Scene) -> bool:
    kind = objective(model.network)
    if kind == "masked":
        mask = str(model.tokenizer.mask_token)
        texts = (scene.text, scene.pair or "")
        return any("[MASK]" in text or mask in text for text in texts)
    return kind == "causal"


def _words(scene: Scene, model: AttentionModel) -> str:
    if objective(model.network) == "causal":
        if isinstance(scene, WrittenScene):  # its last step knows
            coming = shown(scene, model).coming
        else:
            coming = upcoming(model, scene.text, scene.pair)
        return "Next: " + _likeliest((one.text, one.probability) for one in coming.candidates[:TOP])
    found = predict(model, scene.text, top_k=TOP, text_pair=scene.pair)
    gaps = sorted((found, *found.others), key=lambda one: one.position)
    names = ["[MASK]"] if len(gaps) == 1 else [f"[MASK] {i + 1}" for i in range(len(gaps))]
    return "; ".join(
        f"{plain(name)}: {_likeliest(zip(gap.candidates, gap.probabilities, strict=True))}"
        for name, gap in zip(names, gaps, strict=True)
    )


def _likeliest(candidates: Iterable[tuple[str, float]]) -> str:
    return " · ".join(f"**{plain(text)}** {share:.1%}" for text, share in candidates)
