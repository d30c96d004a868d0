// @ts-check
// The tokens of the text, written out. Each is tinted by how much the chosen one looks at it.

import { canHover, colourAt, formatWeight, inkOn, make, makeButton, scaleWeight, tokenElement } from "../shared/shared.js";
/* global PALETTE */

// A Mac opens its menu on Control and a click.
const IS_MAC = /Mac/.test(globalThis.navigator?.platform ?? "");

export class SentenceView {
  /** @param {{ choose: (pair: { query: number, key: number }) => void, all: (on: boolean) => void, brush: (side: string, first: number, last: number) => void, clear: () => void, toggle: (position: number) => void }} out */
  constructor(out) {
    this.out = out;
    this.root = make("div", "sentence");
    this.words = make("div", "words");
    this.words.setAttribute("role", "group");
    this.hint = make("span", "hint");
    this.mean = makeButton("button", "Mean of all heads", () => this.out.all(this.mean.getAttribute("aria-pressed") !== "true"));
    this.clear = makeButton("button", "Clear selection", () => this.out.clear());
    this.under = make("div", "under");
    this.under.append(this.hint, this.clear, this.mean); // the mean, which comes first, stays where it is
    this.root.append(this.words, this.under);
    this.hover = -1;
    /** Words that are dragged over: the one where it began, and the last one. @type {{ side: string, from: number, to: number } | null} */
    this.brush = null;
    this.words.addEventListener("click", (event) => this.click(event));
    this.words.addEventListener("pointerdown", (event) => this.begin(event));
    this.words.addEventListener("pointerover", (event) => this.drag(event));
    this.words.addEventListener("pointerover", (event) => event.pointerType !== "touch" && this.point(event));
    this.words.addEventListener("pointerleave", () => this.hoverToken(-1));
  }

  /**
   * @param {any} scene header, pair, part (what the axes show; null for all), row(query) -> weights or
   * null, scale, theme, mean, among (a set of positions), weightAmong (of them in this head; null while
   * it is not known), weight (of the pair, in words)
   */
  draw(scene) {
    this.scene = scene;
    const { header } = scene;
    if (this.drawn !== header.id) this.build(header);
    this.drawn = header.id;
    this.mean.setAttribute("aria-pressed", String(scene.mean));
    this.tint();
  }

  build(header) {
    this.hover = -1; // of another text
    this.anchor = null; // the word that was clicked last: with Shift, a part begins there
    const word = (side, label, position) => {
      const button = make("button", "word");
      Object.assign(button.dataset, { side, "place": position });
      button.append(tokenElement(label, header[`${side}_special`][position]));
      return button;
    };
    const list = (side) => header[`${side}_labels`].map((label, position) => word(side, label, position));
    this.crossed = String(header.query_labels) !== String(header.key_labels);
    const several = this.crossed ? "" : `; ${IS_MAC ? "Command" : "Control"} and a click choose several`;
    this.words.setAttribute("aria-label", `Tokens: the first one chosen looks, the second is looked at; Shift and a click show only those between${several}`);
    if (this.crossed) {
      const lines = ["query", "key"].map((side) => {
        const line = make("div", "line");
        line.append(make("span", "which", side === "query" ? "looks:" : "looked at:"), ...list(side));
        return line;
      });
      this.words.replaceChildren(...lines);
    } else {
      this.words.replaceChildren(...list("key"));
    }
  }

  tint() {
    const { pair, theme, scale, row, header } = this.scene;
    const looking = this.hover >= 0 ? this.hover : pair.query;
    const weights = looking >= 0 ? row(looking) : null;
    const stops = PALETTE.sequential[theme];
    for (const button of this.words.querySelectorAll(".word")) {
      const position = Number(button.dataset.place);
      const isKey = !this.crossed || button.dataset.side === "key";
      const isQuery = !this.crossed || button.dataset.side === "query";
      const chosen = isQuery && pair.query === position;
      const looked = isKey && pair.key === position;
      button.classList.toggle("looks", chosen);
      button.classList.toggle("looked", looked);
      button.setAttribute("aria-pressed", String(chosen || looked));
      button.classList.toggle("among", this.scene.among.has(position));
      button.classList.toggle("shown", this.isShown(button.dataset.side, position));
      const tinted = weights && isKey;
      const colour = tinted ? colourAt(scaleWeight(weights[position], scale), stops) : null;
      button.style.background = colour ? `rgb(${colour.join(" ")})` : "";
      button.style.color = colour ? inkOn(colour) : "";
    }
    const label = (side, position) => header[`${side}_labels`][position];
    const { among, weightAmong, weight } = this.scene;
    const several = canHover() && !this.crossed ? `; ${IS_MAC ? "⌘" : "Ctrl"}-click to choose several` : "";
    this.clear.hidden = pair.query < 0 && pair.key < 0 && !this.scene.part && !among.size;
    this.mean.hidden = looking < 0;
    const far = pair.query >= 0 && pair.key >= 0;
    if (among.size) this.hint.textContent = amongInWords(among.size, weightAmong);
    else if (far) this.hint.textContent = `“${label("query", pair.query)}” looks at “${label("key", pair.key)}”: ${weight}`;
    else if (pair.query >= 0) this.hint.textContent = `Tinted by how much “${label("query", pair.query)}” looks at each. Choose a second one.`;
    else this.hint.textContent = `Click a token to see what it looks at; drag to show a part${several}.`;
    this.hint.title = this.hint.textContent; // where there is no room for all of it
  }

  /** Tell whether a word is on an axis of the part that is shown, or would be by what is dragged over. */
  isShown(side, position) {
    const { brush, crossed } = this;
    const { part } = this.scene;
    if (brush && brush.to !== brush.from && (!crossed || brush.side === side)) {
      return position >= Math.min(brush.from, brush.to) && position <= Math.max(brush.from, brush.to);
    }
    if (!part) return false;
    const isQueryShown = position >= part.top && position < part.top + part.rows;
    const looked = position >= part.left && position < part.left + part.cols;
    return crossed ? (side === "query" ? isQueryShown : looked) : isQueryShown || looked;
  }

  // -- tokens that are dragged over -----------------------------------------------------------------

  begin(event) {
    const word = event.target.closest?.(".word");
    if (!word || event.button > 0) return;
    word.releasePointerCapture?.(event.pointerId); // a finger's would keep the words from noticing it
    this.brush = { side: word.dataset.side, from: Number(word.dataset.place), to: Number(word.dataset.place) };
    this.brushed = false;
    const end = (ended) => {
      for (const kind of ["pointerup", "pointercancel"]) document.removeEventListener(kind, end);
      this.end(ended.type === "pointerup");
    };
    for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, end);
  }

  drag(event) {
    const word = event.target.closest?.(".word");
    if (!this.brush || word?.dataset.side !== this.brush.side) return;
    this.brush.to = Number(word.dataset.place);
    this.tint();
  }

  end(done) {
    const { side, from, to } = this.brush;
    this.brush = null;
    if (from !== to && done) this.choosePart(side, from, to);
    else this.tint();
  }

  choosePart(side, from, to) {
    this.brushed = true; // and the click that ends it chooses nothing
    setTimeout(() => (this.brushed = false));
    this.out.brush(this.crossed ? side : "", Math.min(from, to), Math.max(from, to));
  }

  point(event) {
    const word = event.target.closest?.(".word");
    const isQuery = word && (!this.crossed || word.dataset.side === "query");
    this.hoverToken(isQuery && this.scene.pair.query < 0 ? Number(word.dataset.place) : -1);
  }

  hoverToken(position) {
    if (position === this.hover || !this.scene) return;
    this.hover = position;
    this.tint();
  }

  click(event) {
    const word = event.target.closest?.(".word");
    if (!word || this.brushed) return;
    const { pair } = this.scene;
    const position = Number(word.dataset.place);
    const side = word.dataset.side;
    if ((event.ctrlKey || event.metaKey) && !this.crossed) return this.out.toggle(position);
    if (event.shiftKey && this.anchor?.side === side && this.anchor.position !== position) return this.choosePart(side, this.anchor.position, position);
    this.anchor = { side, position };
    const choosesQuery = this.crossed ? word.dataset.side === "query" : pair.query < 0 || pair.query === position;
    this.hover = -1;
    if (choosesQuery) this.out.choose(pair.query === position ? { query: -1, key: -1 } : { query: position, key: this.crossed ? pair.key : -1 });
    else this.out.choose({ query: pair.query, key: pair.key === position ? -1 : position });
  }
}

/** Attention among several tokens in words: mean over queries, and sum. */
function amongInWords(count, weight) {
  const summary = `${count} chosen ${count > 1 ? "tokens look at each other" : "token looks at itself"}`;
  if (weight === null) return `${summary} …`;
  const sum = count > 1 ? ` on average, ${formatWeight(weight * count)} in sum` : "";
  return `${summary} with ${formatWeight(weight)} of their weight${sum}; heads are sorted by it`;
}
