"""The choice between our attention function and a family's own weights."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.probe import KEEPABLE, Probe
from mha_viz.engine.run import (
    INSTEAD,
    Backend,
    Batch,
    Run,
    check_own,
    check_shapes,
    own_weights,
    rounding,
    run,
)
from mha_viz.errors import AttentionUnavailableError, MhaVizError
from mha_viz.text.encoding import attending
from mha_viz.text.tokens import Encoded

register()


def choose_backend(
    network: PreTrainedModel, source: Encoded, target: Encoded | None, d_vocab: int
) -> tuple[Backend, dict[str, Run], str]:
    """Run a short text both ways; leave our function in the network only where both agree.

    The network may have been built with any attention: where its family accepts another one, it
    gets ours here. A network that is refused keeps the one that it had. Returns (backend, what the
    run left behind, why the backend is not "mha_viz" or "").
    """
    sources = [_known_to(source, d_vocab)]
    targets = None if target is None else [_known_to(target, d_vocab)]
    before = network.config._attn_implementation
    try:
        return _try_both(network, sources, targets)
    except MhaVizError:
        _switch(network, before)
        raise


def pad_limit(
    network: PreTrainedModel,
    backend: Backend,
    source: Encoded,
    alone: Run,
    *,
    d_vocab: int,
    n_ctx: int,
    pad: int,
) -> float:
    """Return the tokens of the longest text that has the same weights in a padded batch as alone.

    0 where a short text beside a longer one shows that none has (FlauBERT); where positions are
    scaled by the length of the longest text, the length up to which they are not. `alone` is what
    a run of `source` left behind; it is run again where the model takes no longer text.
    """
    scaled_from = _scaled_from(network.config.get_text_config().to_dict())
    most = int(min(scaled_from, n_ctx))
    source = _known_to(source, d_vocab)
    n = len(source.input_ids)
    short, long, pattern = source, _of_length(source, n + (n + 1) // 2), alone.pattern
    if len(long.input_ids) > most:
        short, long = _of_length(source, -(-min(n, most) // 2)), _of_length(source, min(n, most))
        if len(short.input_ids) == len(long.input_ids):
            return scaled_from
        pattern = run(network, backend, [short], pad=pad)["self"].pattern
    n = len(short.input_ids)
    together = run(network, backend, [short, long], pad=pad)["self"].pattern
    apart = rounding(network.dtype)
    is_same = all(
        bool((a[0].float() - b[0, :, :n, :n].float()).abs().max() <= apart * (layer + 1) ** 0.5)
        for layer, (a, b) in enumerate(zip(pattern, together, strict=True))
    )
    return scaled_from if is_same else 0.0


def _of_length(text: Encoded, n: int) -> Encoded:
    """Return the first n tokens of a text that is repeated without end."""
    ids, types = text.input_ids, text.token_type_ids
    times = -(-n // len(ids))
    return replace(
        text,
        input_ids=(ids * times)[:n],
        token_type_ids=None if types is None else (types * times)[:n],
    )


def _scaled_from(config: dict[str, Any]) -> float:
    """Return the tokens beyond which a config scales rotary positions by the text's length."""
    limits = [math.inf]
    for rope in (config.get("rope_parameters"), config.get("rope_scaling")):
        for part in (rope, *rope.values()) if isinstance(rope, dict) else ():
            if isinstance(part, dict) and part.get("rope_type") in ("dynamic", "longrope"):
                trained = part.get("original_max_position_embeddings")
                limits.append(float(trained or config.get("max_position_embeddings") or 0))
    return min(limits)


def _known_to(text: Encoded, d_vocab: int) -> Encoded:
    """Return a text in tokens that the model has; which ones does not matter here."""
    return replace(text, input_ids=[number % d_vocab for number in text.input_ids])


def _try_both(
    network: PreTrainedModel, sources: Batch, targets: Batch | None
) -> tuple[Backend, dict[str, Run], str]:
    ours, eager, reason = None, None, ""
    if _switch(network, IMPLEMENTATION):
        try:
            ours = run(network, "mha_viz", sources, targets, probe=Probe(KEEPABLE))
        except MemoryError:  # which passes, and says nothing of the family
            raise
        except Exception as error:  # what an unknown family raises on an argument it does not know
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
    is_eager = _switch(network, "eager")
    try:
        eager = run(network, "eager", sources, targets)
    except MemoryError:
        raise
    except Exception as error:
        if ours is None and isinstance(error, MhaVizError):
            raise
        if ours is None:
            raise AttentionUnavailableError(_why_no_text_runs(network, error)) from error
    if ours is not None and (eager is None or _agree(ours, eager, network.dtype)):
        for part, ours_of_part in ours.items():
            axes = attending(part, sources, targets)
            check_shapes(ours_of_part.pattern, *axes, network.config.model_type)
        if eager is None or _has_one_width(ours):
            _switch(network, IMPLEMENTATION)
            return "mha_viz", ours, ""
        reason = "its heads are wider in some layers than in others"
    assert eager is not None
    if not is_eager and network.config._attn_implementation != IMPLEMENTATION:
        own_weights((), network)  # says how it has to be built
    check_own(eager, sources, targets, network.config.model_type)
    # A window can be as wide as one text is long, but not as two.
    sources, targets = _shorter(sources), None if targets is None else _shorter(targets)
    check_own(run(network, "eager", sources, targets), sources, targets, network.config.model_type)
    return "eager", eager, reason


def _why_no_text_runs(network: PreTrainedModel, error: Exception) -> str:
    """Say why a plain text gives no attention weights of a network, and what to do instead."""
    family = network.config.model_type
    kinds = {type(module).__name__ for module in network.modules()}
    if not any("attention" in kind.lower() for kind in kinds):
        return (
            f"The {family} family has no attention: its layers mix tokens in another way. {INSTEAD}"
        )
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    parts = [(path, part) for path, part in network.named_modules() if path and _reads_text(part)]
    paths = [path for path, part in parts if _runs(part)]
    capture = "run it inside of `with mv.capture(network) as taken`"
    if paths or not _reads_text(network):
        obstacle = f"needs more than a text ({reason})"
        if not _reads_text(network):
            obstacle = f"reads {network.main_input_name}, not text"
        ways = [f"wrap its part that reads text, mv.wrap(network.{path})" for path in paths[-1:]]
        return f"The {family} family {obstacle}: {', or '.join([*ways, capture])}."
    return f"A plain text does not run through the {family} family ({reason}): {capture}."


@torch.inference_mode()
def _runs(module: nn.Module) -> bool:
    """Return whether a part of a network reads a plain text by itself."""
    device = next((weight.device for weight in module.parameters()), None)
    try:
        module(input_ids=torch.ones((1, 2), dtype=torch.long, device=device))
    except Exception:  # of any library: it needs more than a text
        return False
    return True


def _reads_text(module: nn.Module) -> bool:
    return isinstance(module, PreTrainedModel) and module.main_input_name == "input_ids"


def _has_one_width(runs: dict[str, Run]) -> bool:
    """Return whether heads have one width in all layers, as a record's tensors need."""
    return all(len({z.shape[-1] for z in part.tensors["z"]}) == 1 for part in runs.values())


def _switch(network: PreTrainedModel, implementation: str) -> bool:
    """Switch a network's attention, and tell whether it did: some families choose when built."""
    if network._can_set_attn_implementation():
        network.set_attn_implementation(implementation)
    return bool(network.config._attn_implementation == implementation)


def _shorter(texts: Batch) -> Batch:
    """Drop the last token of texts that have more than one."""
    return [
        replace(text, input_ids=text.input_ids[:-1] or text.input_ids, token_type_ids=None)
        for text in texts
    ]


def _agree(ours: dict[str, Run], eager: dict[str, Run], dtype: torch.dtype) -> bool:
    """Return whether both ways give the same weights and hidden state, up to rounding."""
    for part, theirs in eager.items():
        mine = ours[part]
        if len(mine.pattern) != len(theirs.pattern):
            return False
        if mine.hidden is not None and theirs.hidden is not None and part != "encoder":
            # our run gives the encoder's own hidden state, the eager one the decoder's
            # as a whole, for single numbers differ by more
            apart = (mine.hidden.float() - theirs.hidden.float()).norm()
            if not apart <= rounding(dtype) * theirs.hidden.float().norm():
                return False
        for layer, (a, b) in enumerate(zip(mine.pattern, theirs.pattern, strict=True)):
            # in half precision it adds up from layer to layer, like the steps of a random walk
            steps = layer + 1 if torch.finfo(dtype).bits < 32 else 1
            most = rounding(dtype) * steps**0.5
            if a.shape != b.shape or not (a.float() - b.float()).abs().max() <= most:
                return False
    return True
