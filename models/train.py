"""Train tiny-gpt2, tiny-bert or tiny-llama from a folder of plain text.

    python -m models.train gpt2 --text DIR --cache DIR --work DIR --out models/tiny-gpt2

Stops at `--tokens` or after `--minutes`, whichever comes first; the schedule follows the nearer of
the two. Run again with the same `--work`, it goes on where it stopped.
"""

import argparse
import csv
import json
import os
import signal
import tempfile
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from models import data, probes
from models.optim import build_optimizers
from models.recipe import RECIPES, Recipe, build


class Run:
    """One training: model, optimisers, and how far it has come."""

    def __init__(
        self, recipe: Recipe, cache: Path, work: Path, checkpoints: Path | None = None
    ) -> None:
        self.recipe, self.cache, self.work, self.checkpoints = recipe, cache, work, checkpoints
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = build(recipe).to(self.device)
        self.train, self.held_out = (
            data.load(recipe.kind, cache, s) for s in ("train", "held_out")
        )
        self.tokenizer = Tokenizer.from_file(str(cache / f"{recipe.kind}-tokenizer.json"))
        self.bare = data.bare_ids(self.tokenizer)
        self.step = self.tokens = self.phase = self.phase_step = 0
        self.elapsed, self.mean_loss, self.stopped = 0.0, 0.0, False
        self.curve: list[dict[str, float | None]] = []
        self.start_optimizers()

    def start_optimizers(self) -> None:
        """Fresh optimisers for the phase that the run is in."""
        r = self.recipe
        muon_lr = r.muon_lr if self.phase >= r.muon_phase else 0.0
        self.optimizers = build_optimizers(self.model, muon_lr, r.adam_lr)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["full_lr"] = group["lr"]

    @property
    def progress(self) -> float:
        """The share of the run that is over, by tokens or by time, whichever is further."""
        time_used = self.elapsed / (60 * self.recipe.minutes) if self.recipe.minutes else 0.0
        return max(self.tokens / self.recipe.tokens, time_used)

    def learning_rate(self) -> float:
        """Share of the full rate: warm-up, (again after a new length), plateau, decay."""
        r = self.recipe
        warm = min(1.0, (self.step + 1) / r.warmup)
        if r.rewarm and self.phase:
            warm = min(warm, (self.phase_step + 1) / r.rewarm)
        return max(0.0, min(1.0, (1.0 - self.progress) / r.decay)) * warm

    def batch(self, length: int) -> dict[str, Tensor]:
        """The batch of this step: it depends on seed and step alone, so a resumed run agrees."""
        rng = np.random.default_rng((self.recipe.seed, self.step))
        rows = self.recipe.batch_tokens[self.phase] // length
        if self.recipe.causal:
            # one more than the model reads, so that its last position has something to predict
            arrays = {"ids": data.causal_batch(self.train, rng, rows, length + 1, self.bare)}
        else:
            arrays = data.masked_batch(
                self.train, rng, rows, length, self.recipe.vocab, self.recipe.masked
            )
        return {k: torch.from_numpy(v).to(self.device) for k, v in arrays.items()}

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Mean loss, with the matrix products in bfloat16."""
        with torch.autocast(self.device, dtype=torch.bfloat16):
            if self.recipe.causal:
                ids = batch["ids"]
                logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits.float()
                return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            labels = batch.pop("labels")
            at = labels != -100
            return cross_entropy(probes.masked_logits(self.model, batch, at), labels[at])

    def train_step(self) -> float:
        """One batch, one update; returns the loss."""
        r = self.recipe
        phase = next(i for i, end in enumerate(r.until) if self.progress < end or end == 1.0)
        if phase != self.phase:
            comes = self.phase < r.muon_phase <= phase and r.muon_lr
            self.phase, self.phase_step = phase, 0
            if comes:
                self.start_optimizers()
        share = self.learning_rate()
        loss = self.loss(self.batch(r.lengths[phase]))
        loss.backward()
        if r.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), r.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full_lr"] * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step, self.phase_step = self.step + 1, self.phase_step + 1
        self.tokens += r.batch_tokens[phase]
        return loss.item()

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Held-out loss and the best heads, on little data: cheap enough to do often."""
        model, corpora, vocab = self.model.eval(), self.held_out, self.recipe.vocab
        row: dict[str, float] = {}
        # positions that have not been trained yet would only blur the figures
        length = self.recipe.lengths[self.phase]
        thirds = [c.tokens[i * len(c.tokens) // 3 :] for c in corpora for i in range(3)]
        texts = [tokens[: min(length, 32)].tolist() for tokens in thirds]
        if self.recipe.causal:
            losses = [probes.causal_loss(model, c, 8192 // length, length) for c in corpora]
            row["held_out_loss"] = float(np.mean(losses))
            found = probes.induction(model, vocab, rows=8)
            row["induction"] = found["heads"].max().item()
            row["second_copy_loss"] = found["second"]
            if length >= 2 * probes.FAR:
                far = probes.induction(model, vocab, probes.FAR, rows=2)
                row["far_induction"] = far["heads"].max().item()
                row["far_second_copy_loss"] = far["second"]
        else:
            both = []
            for corpus in corpora:
                rng = np.random.default_rng(0)
                some = (
                    data.masked_batch([corpus], rng, 4096 // length, length, vocab, plain=True)
                    for _ in range(4)
                )
                both.append(probes.masked_scores(model, some))
            row["held_out_loss"], row["accuracy"] = np.mean(both, axis=0).tolist()
            texts = [[2, *text[:-2], 3] for text in texts]
            row["next_token"] = probes.offset_scores(model, texts, 1).max().item()
        row["previous_token"] = probes.offset_scores(model, texts, -1).max().item()
        model.train()
        return row

    def record(self) -> None:
        """Measure, and add a row to the curve."""
        row: dict[str, float | None] = {
            "step": self.step,
            "tokens": self.tokens,
            "minutes": round(self.elapsed / 60, 2),
            "length": self.recipe.lengths[self.phase],
            "lr_share": round(self.learning_rate(), 4),
            "train_loss": round(self.mean_loss, 4) if self.mean_loss else None,
            **{k: round(v, 4) for k, v in self.measure().items()},
        }
        self.curve.append(row)
        print(json.dumps(row), flush=True)

    def fit(self, measure_every: int, save_minutes: float, max_steps: int | None = None) -> None:
        """Train to the end of the schedule, or until told to stop."""
        self.model.train()
        saved, begun = time.monotonic(), self.step
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopped", True))
        while self.progress < 1.0 and not self.stopped:
            if max_steps is not None and self.step - begun >= max_steps:
                break
            self.keep()
            clock = time.monotonic()
            loss = self.train_step()
            self.mean_loss = 0.98 * self.mean_loss + 0.02 * loss if self.mean_loss else loss
            if measure_every and self.step % measure_every == 0:
                self.record()
            self.elapsed += time.monotonic() - clock
            if time.monotonic() - saved > 60 * save_minutes:
                self.save()
                saved = time.monotonic()
        self.keep()
        finished = self.progress >= 1.0 and not (self.curve and self.curve[-1]["step"] == self.step)
        if measure_every and finished:
            self.record()
        self.save()

    def keep(self) -> None:
        """Write the model of this step beside those of others, if it is one of `KEPT_STEPS`."""
        if self.checkpoints and self.step in KEPT_STEPS:
            self.export(self.checkpoints / f"step-{self.step}")

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self.work.mkdir(parents=True, exist_ok=True)
        state = {
            "recipe": asdict(self.recipe),
            "model": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "position": {k: getattr(self, k) for k in POSITION},
            "curve": self.curve,
            "random": torch.get_rng_state(),
        }
        part = self.work / "checkpoint.part"
        torch.save(state, part)
        os.replace(part, self.work / "checkpoint.pt")

    def resume(self) -> bool:
        """Go on from the checkpoint in the work folder, if there is one."""
        path = self.work / "checkpoint.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.phase = state["position"]["phase"]
        self.start_optimizers()
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            rates = [group["full_lr"] for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["full_lr"] = rate  # the recipe's, should it have been changed
        for name in POSITION:
            setattr(self, name, state["position"][name])
        self.curve = state["curve"]
        torch.set_rng_state(state["random"].cpu())
        return True

    def export(self, out: Path) -> None:
        """Write model, tokenizer and curve as float16, each file replaced at one stroke."""
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent) as temporary:
            half = build(self.recipe)
            half.load_state_dict(self.model.state_dict())
            half.half().save_pretrained(temporary)
            r = self.recipe
            data.as_transformers(r.kind, self.tokenizer, r.context).save_pretrained(temporary)
            settings = Path(temporary) / "tokenizer_config.json"
            text = settings.read_text()  # the generic class under the name that older releases know
            settings.write_text(text.replace("TokenizersBackend", "PreTrainedTokenizerFast"))
            if self.curve:
                with open(Path(temporary) / "training_curve.csv", "w", newline="") as file:
                    writer = csv.DictWriter(file, list(self.curve[-1]))
                    writer.writeheader()
                    writer.writerows(self.curve)
            for path in Path(temporary).iterdir():
                path.chmod(0o644)
                os.replace(path, out / path.name)


# As models, by --checkpoints: powers of two, and one more where heads that look back form.
KEPT_STEPS = (0, 384, *(2**power for power in range(6, 13)))
POSITION = ("step", "tokens", "phase", "phase_step", "elapsed", "mean_loss")


def main() -> None:
    """Read the command line, then train, or with --export-only write the last checkpoint out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=RECIPES)
    parser.add_argument(
        "--text", type=Path, help="folder of .txt files; needed once, for the cache"
    )
    parser.add_argument("--cache", type=Path, required=True, help="where the tokens are kept")
    parser.add_argument("--work", type=Path, required=True, help="where the checkpoint is kept")
    parser.add_argument("--out", type=Path, help="model folder to write; default: none")
    parser.add_argument(
        "--checkpoints", type=Path, help="folder for the models after 0, 64, 128 ... 4,096 steps"
    )
    parser.add_argument("--tokens", type=float, help="length of the run in tokens")
    parser.add_argument("--minutes", type=float, help="length of the run in minutes of training")
    parser.add_argument("--muon-lr", type=float)
    parser.add_argument("--adam-lr", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure-every", type=int, default=500, help="steps")
    parser.add_argument("--save-minutes", type=float, default=5.0)
    parser.add_argument("--max-steps", type=int, help="stop early, e.g. to time a few steps")
    parser.add_argument("--export-only", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    given: dict[str, Any] = {
        f.name: value
        for f in fields(Recipe)
        if (value := getattr(options, f.name, None)) is not None
    }
    recipe = replace(RECIPES[options.kind], **given)
    if options.text:
        data.prepare(options.kind, options.text, options.cache)
    run = Run(recipe, options.cache, options.work, options.checkpoints)
    resumed = run.resume()
    if not options.export_only:
        print(f"{'resumed' if resumed else 'started'} at {run.tokens:,} tokens", flush=True)
        run.fit(options.measure_every, options.save_minutes, options.max_steps)
    if options.out and not run.stopped:
        run.export(options.out)


if __name__ == "__main__":
    main()
