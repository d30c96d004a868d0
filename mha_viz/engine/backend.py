"""The choice between our attention function and a family's own weights."""

from dataclasses import replace

import torch
from transformers import PreTrainedModel

from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.probe import KEEPABLE, Probe
from mha_viz.engine.run import Backend, Batch, Run, check_own, rounding, run
from mha_viz.errors import AttentionUnavailableError, MhaVizError
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
    # Which tokens they are does not matter here, only that the model has them.
    sources, targets = (
        None if text is None else [replace(text, input_ids=[i % d_vocab for i in text.input_ids])]
        for text in (source, target)
    )
    assert sources is not None
    before = network.config._attn_implementation
    try:
        return _try_both(network, sources, targets)
    except MhaVizError:
        _switch(network, before)
        raise


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
    _switch(network, "eager")
    try:
        eager = run(network, "eager", sources, targets)
    except MemoryError:
        raise
    except Exception as error:
        if ours is None and isinstance(error, MhaVizError):
            raise
        if ours is None:
            raise AttentionUnavailableError(
                f"A plain text does not run through the {network.config.model_type} family: {error}"
            ) from error
    if ours is not None and (eager is None or _agree(ours, eager, network.dtype)):
        _switch(network, IMPLEMENTATION)
        return "mha_viz", ours, ""
    assert eager is not None
    check_own(eager, sources, targets, network.config.model_type)
    # A window can be as wide as one text is long, but not as two.
    sources, targets = _shorter(sources), None if targets is None else _shorter(targets)
    check_own(run(network, "eager", sources, targets), sources, targets, network.config.model_type)
    return "eager", eager, reason


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
