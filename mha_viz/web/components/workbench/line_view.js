// @ts-check
// One line in words above the pictures: what an example shows, or the clearest thing on this text;
// once a token or a pair is chosen, the heads in which it looks most. Each head's name chooses it.

import { headsOfPair, keysOf } from "./token_findings.js";
import { percent } from "./prediction_view.js";
import { formatNumber, make, tokenElement } from "../shared/shared.js";

const HEAD_NAME = /(L\d+ H\d+)/; // of a head in an example's words
const MARKUP = /(\*\*[^*]+\*\*|\*[^*]+\*)/; // words set off in an example, as Markdown has them

export class LineView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "mha line-view");
    this.words = make("p", "words");
    this.words.setAttribute("role", "status"); // a screen reader hears what a choice shows
    this.more = Object.assign(make("button", "button", "More"), { hidden: true });
    this.more.setAttribute("aria-expanded", "false");
    this.next = make("p", "next");
    this.root.append(this.words, this.more, this.next);
    this.height = undefined;
    this.drawn = "";
    this.words.addEventListener("click", (event) => {
      const head = event.target.closest("button")?.dataset.head;
      if (head !== undefined) bench.chooseHead(Number(head));
    });
    this.more.addEventListener("click", () => this.unfold(this.more.getAttribute("aria-expanded") !== "true"));
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.root);
  }

  draw() {
    const { bench } = this;
    const { pair } = bench;
    this.drawNext(bench.prediction?.next ?? []);
    const { exact } = bench.weights;
    if (pair.query >= 0) exact.requestAll();
    const source = pair.query >= 0 ? bench.weights.axes.key : "";
    const state = JSON.stringify([bench.payload.header.id, source, pair, this.precision, Boolean(bench.notes)]);
    if (state === this.drawn) return;
    this.drawn = state;
    this.words.replaceChildren(...(pair.query >= 0 ? this.ofTokens(pair) : this.ofText()));
    this.unfold(false);
  }

  /** Draw the model's predictions of the next token, or at its gaps. @param {[string, [string, number][]][]} gaps */
  drawNext(gaps) {
    const parts = gaps.flatMap(([name, tokens], rank) => [
      `${rank ? "; " : ""}${name}: `,
      ...tokens.flatMap(([token, share], at) => [at ? " · " : "", make("bdi", "token", token), ` ${percent(share)}`]),
    ]);
    this.root.classList.toggle("predicts", Boolean(this.bench.settings.predicts)); // room for what comes late
    this.next.replaceChildren(...parts);
    this.next.title = this.next.textContent;
  }

  /** The exactness of the chosen query's weights: the line is drawn anew when it rises. */
  get precision() {
    const { weights, pair } = this.bench;
    if (pair.query < 0) return 0;
    return [...weights.exact.heads.values()].filter(Boolean).length + weights.rows.size;
  }

  /** A line that is too long is cut, and unfolds. @type {(on: boolean) => void} */
  unfold(on) {
    this.root.classList.toggle("open", on);
    this.more.setAttribute("aria-expanded", String(on));
    this.more.textContent = on ? "Less" : "More";
    this.fit();
  }

  fit() {
    const isOpen = this.root.classList.contains("open");
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = this.words;
    this.more.hidden = !isOpen && scrollWidth <= clientWidth && scrollHeight <= clientHeight;
  }

  // -- words ----------------------------------------------------------------------------------------

  /** The finding of an example, or the clearest one on this text; none while labels are to come. */
  ofText() {
    const { hint, finding } = this.bench.notes ?? {};
    if (hint) return hint.trim().split(MARKUP).flatMap((words) => this.marked(words));
    if (!finding) return [];
    if (finding.head === null) return [finding.text];
    const amount = make("span", "amount", `${finding.amount}; chance ${finding.chance}`);
    if (finding.chance) amount.title = `Chance: ${finding.baseline_name}`;
    else amount.textContent = finding.amount;
    return [this.name(finding.head), ` ${finding.text}: `, amount];
  }

  /** @param {{ query: number, key: number }} pair positions on the axes that are shown */
  ofTokens({ query, key }) {
    const { weights } = this.bench;
    const ranked = key < 0 ? keysOf(weights, query) : headsOfPair(weights, query, key);
    if (!ranked) return []; // a long text's weights are on their way
    if (key >= 0 && !ranked.length) return [this.token("query", query), " cannot see ", this.token("key", key)];
    if (!ranked.length) return [this.token("query", query), " looks at no token more than chance"];
    const list = ranked.flatMap((finding, rank) => [rank ? ", " : "", ...this.findingElements(finding, rank, key < 0)]);
    if (key < 0) return [this.token("query", query), " looks most at ", ...list];
    const how = ranked[0].weight > ranked[0].chance ? " most in " : " no more than chance, most in ";
    return [this.token("query", query), " looks at ", this.token("key", key), how, ...list];
  }

  /** A head with the weight it gives; the first, and each with another chance, beside its chance. */
  findingElements({ head, key, weight, chance }, rank, withKey) {
    const about = this.bench.weights.isExact(head) || this.bench.weights.pooled ? "" : "≈ ";
    const isNew = !rank || decimals(chance) !== this.chance;
    this.chance = decimals(chance);
    const beside = isNew ? `; chance ${this.chance}` : "";
    const token = withKey ? [this.token("key", key), " in "] : [];
    return [...token, this.name(head), ` (${about}${decimals(weight)}${beside})`];
  }

  name(head) {
    const button = make("button", "head-name", this.bench.name(head));
    button.dataset.head = head;
    return button;
  }

  /** @type {(side: "query" | "key", position: number) => Element} */
  token(side, position) {
    const { header } = this.bench.weights.shown;
    const word = make("b", "quoted");
    word.append(tokenElement(header[`${side}_labels`][position], header[`${side}_special`][position]));
    return word;
  }

  /** An example's words, set off or not, with heads to be clicked. @type {(words: string) => (Element | string)[]} */
  marked(words) {
    if (words.startsWith("**")) return [make("b", "", words.slice(2, -2))];
    if (words.startsWith("*")) return [make("em", "", words.slice(1, -1))];
    const { layers, heads, layer_numbers: numbers } = this.bench.payload.header;
    return words.split(HEAD_NAME).map((part) => {
      if (!HEAD_NAME.test(part) || numbers) return part;
      const [layer, head] = part.match(/\d+/g).map(Number);
      return layer < layers && head < heads ? this.name(layer * heads + head) : part;
    });
  }

  close() {
    this.sizes.disconnect();
  }
}

/** A weight with two decimals; a small one with one digit. @type {(weight: number) => string} */
function decimals(weight) {
  return weight >= 0.01 || weight === 0 ? weight.toFixed(2) : formatNumber(weight, { digits: 1 });
}
