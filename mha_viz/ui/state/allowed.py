"""A visitor's limits: the models, texts and files that the operator of the server allows.

Must not import torch or transformers, because the page is there before they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mha_viz.checkpoints import catalog
from mha_viz.checkpoints.catalog import ModelInfo, SuggestedModel, list_models
from mha_viz.core.amounts import of_bytes
from mha_viz.ui.operating import memory_limit
from mha_viz.ui.operating.refusals import refused, sentence
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state import views
from mha_viz.ui.state.examples import EXAMPLES, Example

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

MAX_SHORT_TEXT = 400  # characters of a text that is run even with little memory left


def models() -> list[ModelInfo]:
    """Return the models of this machine that visitors may choose."""
    return [info for info in list_models() if info.source == "shipped" or may_be_named(info.name)]


def examples() -> list[Example]:
    """Return the examples whose texts this server reads to the end."""
    most = settings().max_tokens
    return [example for example in EXAMPLES if most is None or example.n_tokens <= most]


def example_hint(model: str, text: str, pair: str) -> str:
    """Return what to look for where these are an example of the model; "" for any other text."""
    named = (model, text, pair)
    return next(
        (
            example.look
            for example in examples()
            if (example.model, example.text, example.pair) == named
        ),
        "",
    )


def absent(present: Iterable[str]) -> list[SuggestedModel]:
    """Return the models that may be fetched, beside those that are here."""
    if not settings().public:
        return catalog.suggested(set(present))
    suggestions = {suggestion.name: suggestion for suggestion in catalog.SUGGESTED}
    missing = [name for name in settings().models if name not in present]
    return [
        suggestions.get(name, SuggestedModel(name, "a model of the Hub", 0)) for name in missing
    ]


def may_be_named(name: str) -> bool:
    """Return whether visitors may ask for a model that is not shipped."""
    return not settings().public or name in settings().models


def check_model(name: str) -> None:
    """Refuse a model that this server does not show, or that is too large for it.

    Raises LimitError: with the names of those that it does show; or there is no memory for any but
    the shipped ones, which are small.
    """
    model_infos = {info.name: info for info in models()}
    if name not in model_infos and not may_be_named(name):
        raise refused("model", **_shown_instead(name))
    most, info = settings().max_parameters, model_infos.get(name)
    if most is not None and info is not None and info.n_bytes > 4 * most:
        raise refused("model size", name=name, count=info.n_bytes // 4, most=most)
    if info is None or info.source != "shipped":
        memory_limit.check()


def check_size(model: AttentionModel) -> None:
    """Refuse a model with too many parameters, once they can be counted: raises LimitError."""
    most = settings().max_parameters
    count = sum(each.numel() for each in model.network.parameters())
    if most is not None and count > most:
        raise refused("model size", name=model.name, count=count, most=most)


def not_shown(name: str) -> str:
    """Say that this server does not show a model, and which ones it shows."""
    return sentence("model", **_shown_instead(name))


def _shown_instead(name: str) -> dict[str, str]:
    shown = ", ".join(info.name for info in models())
    return {"shown": shown, "name": name if len(name) <= 80 else name[:79] + "…"}


def check_text(*texts: str | None) -> None:
    """Refuse texts that are too long together, or long while the server has little memory left.

    Raises LimitError: with both lengths, or to be tried later.
    """
    most, length = settings().max_characters, sum(len(text or "") for text in texts)
    if most is not None and length > most:
        raise refused("text", most=most, length=length)
    if length > MAX_SHORT_TEXT:
        memory_limit.check()


def upload_mb(most: int = 5) -> int:
    """Return the megabytes that a file may have, at most `most`."""
    return min(most, settings().max_upload_mb or most)


def check_upload(n_bytes: int) -> None:
    """Refuse a file, or texts in place of one, that is too large: raises LimitError."""
    most = settings().max_upload_mb
    if most is not None and n_bytes > most * 10**6:
        raise refused("upload size", most=most, size=of_bytes(n_bytes))


def most_written() -> int:
    """Return how many tokens a model may write behind a text."""
    return min(views.MAX_WRITTEN, settings().max_generated or views.MAX_WRITTEN)
