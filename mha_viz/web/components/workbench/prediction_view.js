// @ts-check
// The model's predictions without the heads that are switched off, beside those with all.
// Nothing is drawn while no head is off.

import { formatNumber, make, makeButton } from "../shared/shared.js";

const MAX_NAMED = 4; // heads that are named

export class PredictionView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "mha prediction-view");
    this.root.hidden = true;
    this.words = make("div", "words");
    this.words.setAttribute("role", "status");
    this.bars = make("div", "bars");
    this.allOn = makeButton("button", "", () => bench.choose({ off: [] }));
    const top = make("div", "top");
    top.append(this.words, this.allOn);
    this.root.append(top, this.bars);
    this.height = undefined;
  }

  draw() {
    const { bench } = this;
    const off = bench.view.off ?? [];
    this.root.hidden = !off.length;
    if (this.root.hidden) return;
    this.allOn.textContent = bench.switchWords.allOn;
    const names = off.map(([layer, head]) => bench.name(layer * bench.payload.header.heads + head));
    const listed = names.length > MAX_NAMED ? `${names.slice(0, MAX_NAMED).join(", ")} and ${names.length - MAX_NAMED} more` : names.join(", ");
    const prediction = bench.prediction;
    const isKnown = prediction && String(prediction.off) === String(off);
    this.root.setAttribute("aria-busy", String(!isKnown));
    if (!isKnown) {
      this.words.textContent = `Predicting with ${listed} changed …`;
      return; // the bars of before stay, so that nothing moves
    }
    const { message, how, where, rows = [], kl, numbers } = prediction;
    const changed = how ? `${how}: ${listed}` : `Without ${listed}`;
    this.words.textContent = message ?? `${changed}. ${where}${numbers ? `: ${formatNumber(numbers[1])} (with all heads ${formatNumber(numbers[0])})` : ""}`;
    if (kl !== undefined) this.words.append(" · ", make("span", "kl", `KL divergence ${formatNumber(kl)} nats`));
    this.bars.replaceChildren(...rows.map(outcome));
  }

  close() {
    this.root.remove();
  }
}

/** One token with its probability after and before. @param {[string, number, number]} row */
function outcome([token, before, after]) {
  const item = make("div", "outcome");
  const bar = (kind, value) => {
    const track = make("div", `track ${kind}`);
    const fill = make("div", "fill");
    fill.style.width = `${100 * value}%`;
    track.append(fill);
    return track;
  };
  const line = make("div", "line");
  line.append(make("bdi", "token", token), make("b", "", percent(after)), make("span", "was", `was ${percent(before)}`));
  item.append(line, bar("after", after), bar("before", before));
  return item;
}

/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
