"""One family's attention weights by this library against those of its own eager attention."""

import copy
import re
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from tests.families.tiny import WORDS, build, tiny_config, tiny_tokenizer

Outcome = Literal["works", "works with a note", "refused", "fails", "not tried"]
OUTCOMES: tuple[Outcome, ...] = ("works", "works with a note", "refused", "fails", "not tried")
TOLERANCE = 1e-4  # of weights between 0 and 1 in float32; a wrong formula differs by far more
EXACT = 1e-6  # of weights that were computed in float64 and are kept in float32
LENGTHS = (3, 11, 29)
ATTENTIONS = {
    "self": "attentions",
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


@dataclass(frozen=True)
class Result:
    """The outcome for one family, in its own words where it does not simply work."""

    family: str
    outcome: Outcome
    reason: str = ""
    backend: str = ""
    largest: float = 0.0  # difference between two weights
    network: str = ""  # the class that was tried

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Differs(Exception):
    """Weights that are not the family's own."""


class NotComparable(Exception):
    """Weights of the family's own that say nothing of others."""


def texts() -> list[str]:
    """Return a text of each length, all of different words."""
    return [" ".join(WORDS[(7 * i + n) % len(WORDS)] for i in range(n)) for n in LENGTHS]


def try_family(family: str) -> Result:
    """Build a family tiny, and compare its weights wrapped and loaded, alone and padded."""
    try:
        network = build(tiny_config(family))
        reference = copy.deepcopy(network)
    except Exception as error:  # of another library, whatever its family needs
        return Result(family, "not tried", f"not built: {_line(error)}")
    return replace(try_network(family, network, reference), network=type(network).__name__)


def try_network(family: str, network: tf.PreTrainedModel, reference: tf.PreTrainedModel) -> Result:
    """Compare the weights of a network with those of its copy that keeps its own attention."""
    largest, backend, notes, works = 0.0, "", [], []
    try:
        for way, model in _models(network):
            backend = model.backend
            notes += [note for note in model.notes if note not in notes]
            for difference in _differences(way, model, reference):
                largest = max(largest, difference)
            works.append(way)
    except Differs as error:
        if note := _rounding(network, reference, error):
            return Result(family, "works with a note", note, backend)
        return Result(family, "fails", str(error), backend)
    except NotComparable as error:
        return Result(family, "not tried", str(error), backend)
    except Exception as error:  # of this library, or another one's that it did not foresee
        if own := _own_error(reference):
            return Result(family, "not tried", f"its own run fails: {own}")
        if isinstance(error, MhaVizError):
            before = f"{works[-1]}, it works: " if works else ""
            return Result(family, "refused", before + _line(error), backend)
        return Result(family, "fails", _line(error), backend)
    outcome: Outcome = "works with a note" if notes else "works"
    return Result(family, outcome, " ".join(notes), backend, largest)


def _rounding(network: tf.PreTrainedModel, reference: tf.PreTrainedModel, error: Differs) -> str:
    """Say that a difference is rounding, where float32 cannot tell; "" where it is more.

    It cannot where the family's own weights in float32 are further than the tolerance from its own
    in float64. Then ours in float64 must be those.
    """
    exact = copy.deepcopy(reference).double()
    own_rounding = 0.0
    try:
        for way, model in _models(network):
            model.network.double()
            for _ in _differences(f"{way} in float64", model, exact, EXACT):
                pass
            for text in texts():
                records = model.trace_parts(text, *[text] * (len(model.parts) > 1))
                in_32, in_64 = own_weights(reference, records), own_weights(exact, records)
                apart = [float((in_32[part] - in_64[part]).abs().max()) for part in records]
                own_rounding = max(own_rounding, *apart)
    except Exception:  # it differs in float64, too, or does not run in it: float32 decides
        return ""
    if own_rounding <= TOLERANCE:
        return ""
    return (
        f"{error} in float32, where its own weights are {own_rounding:.2g} from those in float64: "
        f"its activations are large. In float64 ours differ by less than {EXACT:g}."
    )


def _models(network: tf.PreTrainedModel) -> Iterator[tuple[str, AttentionModel]]:
    """Wrap a network, and load it from a folder."""
    tokenizer = tiny_tokenizer()
    with tempfile.TemporaryDirectory() as parent, warnings.catch_warnings():
        folder = Path(parent, network.config.model_type)
        warnings.simplefilter("ignore")
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield "wrapped", mv.wrap(network, tokenizer)
        yield "loaded", mv.load(str(folder))


def _differences(
    way: str,
    model: AttentionModel,
    reference: tf.PreTrainedModel,
    tolerance: float = TOLERANCE,
) -> Iterator[float]:
    """Yield the largest difference of each text's weights; raise where one is too large."""
    short, middle, long = texts()
    for text in (short, middle, long):
        pair = middle if len(model.parts) > 1 else None
        records = model.trace_parts(text, pair, keep=("pattern",))
        own = own_weights(reference, records)
        for part, record in records.items():
            where = f"{way}, {len(text.split())} tokens, {part}"
            yield _compare(where, record.pattern, own[part], tolerance)
        if len(text.split()) == max(LENGTHS) and _is_uniform(own[model.parts[0]]):
            raise NotComparable("its own weights are uniform with random parameters")
    if len(model.parts) == 1:
        for text, record in zip((long, short), model.trace_batch([long, short]), strict=True):
            own = own_weights(reference, {"self": record})
            where = f"{way}, {len(text.split())} tokens in a padded batch"
            yield _compare(where, record.pattern, own["self"], tolerance)


@torch.no_grad()
def _own_error(network: tf.PreTrainedModel) -> str:
    """Say why a network does not run with the sizes that it was built with; "" where it does.

    One that needs pictures or sound beside a text raises an error of another kind.
    """
    ids = torch.arange(11)[None] + 5
    decoder = {"decoder_input_ids": ids} if network.config.is_encoder_decoder else {}
    try:
        network(input_ids=ids, **decoder)
    except (RuntimeError, IndexError, AttributeError, KeyError) as error:
        return _line(error)
    except Exception:  # of any library: it says what the family needs, and is tried all the same
        return ""
    return ""


@torch.no_grad()
def own_weights(
    reference: tf.PreTrainedModel, records: dict[str, mv.AttentionRecord]
) -> dict[str, torch.Tensor]:
    """Run the ids of a record through a network and return the weights that it gives out."""
    inputs = {"input_ids": _ids(records.get("self") or records["encoder"])}
    if "decoder" in records:
        inputs["decoder_input_ids"] = _ids(records["decoder"])
    output = reference(**inputs, output_attentions=True)
    found = {}
    for part in records:
        weights = [one for one in getattr(output, ATTENTIONS[part]) or () if one is not None]
        if not weights:
            raise NotComparable(f"it gives out no weights of its own ({part})")
        found[part] = torch.stack(weights)[:, 0].float()
    return found


def _ids(record: mv.AttentionRecord) -> torch.Tensor:
    return torch.tensor([[token.id for token in record.tokens]])


def _compare(where: str, ours: torch.Tensor, own: torch.Tensor, tolerance: float) -> float:
    if ours.shape != own.shape:
        raise Differs(f"{where}: shape {tuple(ours.shape)}, its own {tuple(own.shape)}")
    difference = float((ours - own).abs().max())
    if not difference <= tolerance:
        raise Differs(f"{where}: weights differ by {difference:.2g}")
    return difference


def _is_uniform(pattern: torch.Tensor) -> bool:
    rows = pattern[..., -1, :]  # the last query, which sees all keys wherever any does
    return bool(rows.std(-1).max() < 2e-3)


def _line(error: BaseException) -> str:
    """Return the first line of an error, and where it comes from if it is not ours."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else "no reason given"
    first = re.sub(rf"{re.escape(tempfile.gettempdir())}/\S+/", "", first)[:300]
    if isinstance(error, MhaVizError):
        return first
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {first} ({Path(last.filename).name}, {last.name})"
