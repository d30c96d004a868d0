"""The cost of circuits: attributions, paths, the graph; in passes, and beside TransformerLens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from benchmarks.importance import in_transformer_lens, random_model
from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from benchmarks.memory import mib_by, peak_of
from benchmarks.trace import text
from mha_viz.circuits.attribution.flow_graph import flow_graph
from mha_viz.circuits.attribution.logit_attribution import logit_attribution
from mha_viz.circuits.attribution.score_attribution import score_attribution
from mha_viz.circuits.composition.head_pairs import composition
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.circuits.effects.path_effects import path_effects
from mha_viz.engine.model import AttentionModel
from mha_viz.text.encoding import encode_texts

N_TOKENS = 64
SHORT = 10  # tokens of the text whose paths are all estimated
# Passes: bare ones, and there and back on the short text.
AIMS = {"a logit, by heads": 1.6, "one path, exact": 4.0, "estimates of all paths": 10.0}
TITLE = "Circuits"
ABOUT = """GPT-2 of 12 layers, 12 heads, d_model 768 and a vocabulary of 30,522 (random weights),
one text of 64 tokens, float32, CPU, processor time of all threads; each beside a bare forward pass
of the same network and text, the estimates beside a pass there and back (the gradient of a logit by
the embeddings) of their text of 10 tokens.
Where TransformerLens 4.3 (`TransformerBridge`, eager attention) does the same, it runs the same
network: `run_with_cache`, `stack_head_results` and `logit_attrs` for each head's share of a logit
(ours also splits it by source token, and has MLPs and biases); `all_composition_scores` (ours
also has z-scores); and a direct path from a head to a later one's key by hooks, in four passes
(ours finds the likeliest token, gives direct and total, and the estimates of both). It has no one
call for the other rows. Peak memory is that of a fresh process, above the loaded model."""
Way = Callable[[], Any]


def measure(repeats: int = 5, vocabulary: int = 30522, **sizes: int) -> list[Result]:
    """Ratios; `sizes` as `n_layers`, `n_heads`, `d_model`."""
    logging.set_verbosity_error()
    model = random_model("causal", vocabulary, **sizes)
    clean, other = text(N_TOKENS), _changed(text(N_TOKENS))
    ours = _ours(model, clean, other)
    lens = in_transformer_lens(model)
    peers = {} if lens is None else _in_lens(lens, model, clean, other)
    bare = {"bare": partial(_pass, model, clean), "short": partial(_back, model, text(SHORT))}
    by_peer = {f"lens {name}": way for name, way in peers.items()}
    seconds = interleaved(bare | ours | by_peer, repeats, clock=time.process_time)
    results = []
    for name in ours:
        of, pass_of = "bare", "bare pass"
        if name.startswith("estimates"):
            of, pass_of = "short", "pass there and back"
        over, aim = ratio(seconds[name], seconds[of]), AIMS.get(name)
        results.append(
            Result(
                measure=name,
                ours=spread(seconds[name], 1e3, " ms"),
                beside=f"{pass_of} {spread(seconds[of], 1e3, ' ms')}",
                ratio=f"{over:.1f} passes",
                aim="" if aim is None else f"at most {aim:.1f}",
                met=None if aim is None else at_most(over, aim),
            )
        )
        if name in peers:
            theirs = seconds[f"lens {name}"]
            results.append(
                Result(
                    measure=name,
                    ours=spread(seconds[name], 1e3, " ms"),
                    beside=f"TransformerLens {spread(theirs, 1e3, ' ms')}",
                    ratio=f"{ratio(theirs, seconds[name]):.1f} times as fast",
                )
            )
    if not sizes and Path("/proc/self/status").exists():
        results += [_peak(name, name in peers) for name in (*AIMS, "composition of keys")]
    return results


def _peak(name: str, has_peer: bool) -> Result:
    """Memory of one way and its peer, each in a process of its own."""
    ours = mib_by("benchmarks.circuits", "ours", name)
    theirs = mib_by("benchmarks.circuits", "lens", name) if has_peer else None
    return Result(
        measure=f"peak memory of {name}",
        ours=f"{ours:,.0f} MiB",
        beside="" if theirs is None else f"TransformerLens {theirs:,.0f} MiB",
        ratio="" if theirs is None else f"{theirs / ours:.1f} times as little",
    )


def peak(whose: str, name: str) -> int:
    """Bytes that one way takes at its highest, above the loaded model."""
    logging.set_verbosity_error()
    model, clean, other = random_model("causal", 30522), text(N_TOKENS), _changed(text(N_TOKENS))
    if whose == "lens":
        return peak_of(_in_lens(in_transformer_lens(model), model, clean, other)[name])
    return peak_of(_ours(model, clean, other)[name])


# -- ours ------------------------------------------------------------------------------------------


def _ours(model: AttentionModel, clean: str, other: str) -> dict[str, Way]:
    last, short = model.n_layers - 1, text(SHORT)
    path: dict[str, Any] = {"sender": (0, 0), "receiver": (last, 0, "key")}
    return {
        "a logit, by heads": partial(logit_attribution, model, clean),
        "a score of the last layer": partial(
            score_attribution, model, clean, last, 0, N_TOKENS - 1, N_TOKENS // 2
        ),
        "composition of keys": partial(composition, model, "K"),
        "one path, exact": partial(path_effect, model, clean, other, **path, metric="logit"),
        "estimates of all paths": partial(
            path_effects, model, short, _changed(short), metric="logit", n_measured=0
        ),
        "estimates, the 20 largest measured": partial(
            path_effects, model, short, _changed(short), metric="logit"
        ),
        "the graph of a token": partial(flow_graph, model, clean, N_TOKENS - 1),
    }


def _changed(sentence: str) -> str:
    """A text of as many tokens: its words the other way round."""
    return " ".join(reversed(sentence.split()))


@torch.inference_mode()
def _pass(model: AttentionModel, sentence: str) -> Any:
    return model.network(input_ids=_ids(model, sentence))


def _back(model: AttentionModel, sentence: str) -> Any:
    """Run a text, and differentiate its likeliest logit by the embeddings."""
    with torch.enable_grad():
        given = model.network.get_input_embeddings()(_ids(model, sentence)).requires_grad_()
        logits = model.network(inputs_embeds=given).logits[0, -1]
        return torch.autograd.grad(logits.max(), given)


def _ids(model: AttentionModel, sentence: str) -> torch.Tensor:
    """The tokens that our own passes read."""
    return torch.tensor([encode_texts(model.reader, sentence)[0].input_ids])


# -- TransformerLens -------------------------------------------------------------------------------


def _in_lens(lens: Any, model: AttentionModel, clean: str, other: str) -> dict[str, Way]:
    ids, others = _ids(model, clean), _ids(model, other)
    return {
        "a logit, by heads": partial(_logit, lens, ids),
        "composition of keys": partial(lens.all_composition_scores, "K"),
        "one path, exact": partial(_path, lens, ids, others, model.n_layers),
    }


@torch.inference_mode()
def _logit(lens: Any, ids: torch.Tensor) -> Any:
    """Each head's share of the likeliest token's logit, at the last position."""
    logits, cache = lens.run_with_cache(ids)
    heads = cache.stack_head_results(pos_slice=-1)
    return cache.logit_attrs(heads, int(logits[0, -1].argmax()), pos_slice=-1)


@torch.inference_mode()
def _path(lens: Any, ids: torch.Tensor, others: torch.Tensor, n_layers: int) -> float:
    """L0 H0's output of the other text, into the key of the last layer's first head."""
    names = [f"blocks.{i}.attn.hook_z" for i in range(n_layers)]
    mlps = [f"blocks.{i}.hook_mlp_out" for i in range(n_layers)]
    _, other = lens.run_with_cache(others, names_filter=names[:1])
    before, clean = lens.run_with_cache(ids, names_filter=[*names, *mlps])
    heard: dict[str, torch.Tensor] = {}
    key = f"blocks.{n_layers - 1}.attn.hook_k"

    def held(value: torch.Tensor, hook: Any, name: str) -> torch.Tensor:
        value = clean[name].clone()
        if name == names[0]:
            value[:, :, 0] = other[name][:, :, 0]
        return value

    def hear(value: torch.Tensor, hook: Any) -> None:
        heard["key"] = value[:, :, 0].clone()

    def read(value: torch.Tensor, hook: Any) -> torch.Tensor:
        value[:, :, 0] = heard["key"]
        return value

    holds = [(name, partial(held, name=name)) for name in [*names, *mlps]]
    lens.run_with_hooks(ids, fwd_hooks=[*holds, (key, hear)])
    after = lens.run_with_hooks(ids, fwd_hooks=[(key, read)])
    token = before[0, -1].argmax()
    return float(after[0, -1, token] - before[0, -1, token])


if __name__ == "__main__":
    print(peak(*sys.argv[1:]))
