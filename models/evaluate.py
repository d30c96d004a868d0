"""Measure the shipped models: heads on text of our own and on random tokens, loss if text is given.

    python -m models.evaluate                            heads only; needs nothing but the models
    python -m models.evaluate --text DIR --write-card    held-out text as well, into the cards

Every figure in the tables of the model cards was written by this script.
"""

import argparse
import csv
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from mha_viz.core.output_file import write_file
from models import data, probes

HERE = Path(__file__).parent
NAMES = ("tiny-gpt2", "tiny-bert", "tiny-llama")
# Written for this file; no model was trained on them.
SENTENCES = (
    "The baker put the warm bread on the table, and the children ate it at once.",
    "When the rain stopped, two dogs ran across the wet field to the old bridge.",
    "My sister wrote a long letter to her friend, but she never sent it.",
    "The keys to the cabinet are on the shelf behind the blue door.",
    "He asked the captain whether the ship would leave before the storm came.",
    "A small bird sat on the fence and looked at the cat for a long time.",
    "The teacher gave each pupil a book, a pencil and a piece of paper.",
    "Nobody knew why the lights in the house had gone out that night.",
    "The town was founded in 1852 and lies on the northern bank of the river.",
    "If you walk along this road for an hour, you will come to the sea.",
    "The woman who lived next door had once been a famous singer.",
    "They opened the box slowly, for they did not know what was in it.",
)


def load(folder: Path) -> tuple[str, PreTrainedModel, PreTrainedTokenizerFast]:
    """The kind of model in a folder, the model in float32, and its tokenizer."""
    kind = AutoConfig.from_pretrained(folder, local_files_only=True).model_type
    family = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    settings = dict(attn_implementation="eager", dtype=torch.float32, local_files_only=True)
    model = family.from_pretrained(folder, **settings)
    return kind, model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


@torch.no_grad()
def head_scores(
    kind: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Tensor]:
    """Scores (layer, head) of the kinds of heads that a model of this kind can have."""
    texts = [tokenizer(s)["input_ids"] for s in SENTENCES]
    scores = {"previous token": probes.offset_scores(model, texts, -1)}
    if kind == "bert":
        scores["next token"] = probes.offset_scores(model, texts, 1)
    else:
        for distance, found in induction(model).items():
            scores[f"induction, {distance} tokens apart"] = found["heads"]
    return scores


def induction(model: PreTrainedModel) -> dict[int, dict[str, Any]]:
    """Induction at each distance at which two copies fit the model's context."""
    return {
        distance: probes.induction(model, model.config.vocab_size, distance, rows)
        for distance, rows in probes.INDUCTION_ROWS.items()
        if 2 * distance <= model.config.max_position_embeddings
    }


def head_table(kind: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> str:
    """The best head of each kind, beside the best of the same model with random weights."""
    torch.manual_seed(0)
    family = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    untrained = family.from_config(model.config, attn_implementation="eager").float().eval()
    rows = ["| Kind of head | Best head | Score | Heads above 0.5 | Best before training |"]
    rows.append("|---|---|---|---|---|")
    before = head_scores(kind, untrained, tokenizer)
    for name, scores in head_scores(kind, model, tokenizer).items():
        score, place = probes.best(scores)
        many = int((scores > 0.5).sum())
        rows.append(f"| {name} | {place} | {score:.3f} | {many} | {before[name].max():.3f} |")
    if kind != "bert":
        for distance, found in induction(model).items():
            rows += [
                "",
                f"On {distance} random tokens repeated once ({probes.INDUCTION_ROWS[distance]} "
                f"rows): loss {found['first']:.2f} nats a token on the first copy, "
                f"{found['second']:.2f} on the second.",
            ]
    return "\n".join(rows)


def held_out_table(kind: str, model: PreTrainedModel, folder: Path, text: Path) -> str:
    """Loss on the text that was kept from the training, by source."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    measure = masked_row if kind == "bert" else causal_row
    rows: list[dict[str, float]] = []
    for source in ("prose", "wikipedia"):
        texts = list(data.documents(text, source, held_out=True))
        if not texts:
            raise SystemExit(f"no held-out text in {text}: want {data.HELD_OUT_BOOKS} and articles")
        corpus = data.encode(kind, tokenizer, iter(texts))
        rows.append(measure(model, corpus, sum(len(t.encode()) for t in texts)))
    rows.append({name: sum(r[name] for r in rows) / 2 for name in rows[0]})
    rows[-1]["tokens"] *= 2
    lines = [f"| Held-out text | {' | '.join(rows[0])} |", "|---|" + "---|" * len(rows[0])]
    for source, row in zip(("prose", "Wikipedia", "both, mean"), rows, strict=True):
        cells = (f"{v:,.0f}" if v > 99 else f"{v:.3f}" for v in row.values())
        lines.append(f"| {source} | {' | '.join(cells)} |")
    return "\n".join(lines)


def causal_row(model: PreTrainedModel, corpus: data.Corpus, size: int) -> dict[str, float]:
    """Loss of the causal model on adjoining windows of the whole context."""
    context, count = model.config.max_position_embeddings, len(corpus.tokens)
    loss = probes.causal_loss(model, corpus, length=context)
    row = {"tokens": count, "loss": loss, "bits a byte": loss * count / size / math.log(2)}
    if context > data.CONTEXT:  # to be compared with the models that read no more
        name = f"loss, windows of {data.CONTEXT}"
        row[name] = probes.causal_loss(model, corpus, length=data.CONTEXT)
    return row


def masked_row(model: PreTrainedModel, corpus: data.Corpus, size: int) -> dict[str, float]:
    """Loss and accuracy of the masked model on adjoining windows, and sentence by sentence."""
    vocab, width = model.config.vocab_size, data.CONTEXT - 2
    windows = np.split(corpus.tokens, range(width, len(corpus.tokens), width))
    sentences = np.split(corpus.tokens, corpus.starts[1:-1])
    few = [s[:width] for s in sentences[::4] if len(s) > 3]
    loss, accuracy = probes.masked_scores(model, data.masked_texts(windows, vocab))
    alone = probes.masked_scores(model, data.masked_texts(few, vocab))
    return {
        "tokens": len(corpus.tokens),
        "loss": loss,
        "accuracy": accuracy,
        "loss, single sentences": alone[0],
        "accuracy, single sentences": alone[1],
    }


def curve_table(folder: Path, rows: int = 12) -> str:
    """The training curve, thinned, and how long the run was."""
    with open(folder / "training_curve.csv", newline="") as file:
        curve = list(csv.DictReader(file))
    names = [n for n in curve[-1] if n not in ("step", "lr_share")]
    titles = [n.replace("_", " ") for n in names]
    picked = sorted({round(i * (len(curve) - 1) / (rows - 1)) for i in range(rows)})
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join(curve[i][n] for n in names)} |" for i in picked]
    last = curve[-1]
    return (
        f"{int(last['tokens']):,} tokens in {int(last['step']):,} steps and "
        f"{float(last['minutes']):.0f} minutes.\n\n" + "\n".join(lines)
    )


def write_block(card: Path, name: str, text: str) -> None:
    """Put text between the marks <!-- name --> and <!-- /name --> of a card."""
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
    old = card.read_text(encoding="utf-8")
    if not pattern.search(old):
        raise SystemExit(f"{card} has no block {marks[0]}")
    new = pattern.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", old)
    write_file(card, new.encode())


def main() -> None:
    """Measure, print, and write into the cards if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, help="folders under models/, or paths")
    parser.add_argument("--text", type=Path, help="folder with the held-out text")
    parser.add_argument("--write-card", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        folder = HERE / name if (HERE / name).is_dir() else Path(name)
        kind, model, tokenizer = load(folder)
        blocks = {"heads": head_table(kind, model, tokenizer), "curve": curve_table(folder)}
        if options.text:
            blocks["held-out"] = held_out_table(kind, model, folder, options.text)
        for block, text in blocks.items():
            print(f"\n{name}: {block}\n\n{text}")
            if options.write_card:
                write_block(folder / "README.md", block, text)


if __name__ == "__main__":
    main()
