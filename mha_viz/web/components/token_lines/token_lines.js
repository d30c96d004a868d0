// @ts-check
// A few heads as lines from query tokens (left) to key tokens (right), with their weights.
// Shows what a query looks at, and who looks at a key; a pinned query and a key make a pair.

import { paintLines } from "./lines_paint.js";
import { buildLinesParts, drawHeads, drawTokens, drawValues, weightText } from "./lines_parts.js";
import { colourAt, inkOn, scaleWeight, themeOf } from "../shared/shared.js";
/* global PALETTE */

const MIN_GAP_SHARE = 0.46; // least share of the width between the two columns of tokens
const MIN_LABEL_WIDTH = 70; // pixels of a token, below which numbers beside it go
const MAX_TOKENS_ALL_LINES = 80; // tokens up to which all lines are drawn at once

export class TokenLines {
  constructor() {
    this.parts = buildLinesParts();
    this.root = this.parts.root;
    this.model = null;
    this.hover = null; // { side, index }: what is looked at now
    this.pin = null; // the same, kept by a click
    this.pair = null; // the query and the key that are chosen
    this.listen();
  }

  /**
   * Draws some heads; `pin` is the chosen query and key, -1 for none.
   * @param {import("./lines_model.js").LinesModel} model
   * @param {{ query: number, key: number }} pin
   * @param {(name: string, value: any) => void} emit takes "pair" and "share"
   */
  show(model, pin, emit) {
    this.emit = emit;
    if (this.model?.header.id !== model.header.id) this.adopt(model);
    else this.model = model; // exact weights in place of approximate ones
    const [side, index] = pin.query >= 0 ? ["query", pin.query] : ["key", pin.key];
    this.pin = index >= 0 ? { side, index } : null;
    this.pair = pin.query >= 0 && pin.key >= 0 ? pin : null;
    this.draw();
  }

  adopt(model) {
    const { header } = model;
    const before = this.model?.header;
    this.model = model;
    const same = before && String(before.names) === String(header.names);
    if (!same) this.active = new Set(header.names.keys());
    this.share = before?.threshold === header.threshold ? this.share : header.threshold;
    const labels = [header.query_labels, header.key_labels];
    if (!before || JSON.stringify(labels) !== JSON.stringify([before.query_labels, before.key_labels])) {
      this.hover = this.pin = null;
      this.parts.scroller.scrollTop = 0;
    }
    this.fresh = true;
  }

  // -- drawing ------------------------------------------------------------------------------------

  draw() {
    const width = this.root.clientWidth;
    if (!this.model || width < 40) return;
    const { header } = this.model;
    this.theme = themeOf(this.root);
    const colours = PALETTE.qualitative[this.theme];
    this.colours = header.names.map((_, head) => colours[head % colours.length]);
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
    this.measure(width, header);
    if (this.fresh) this.drawLists(header);
    this.fresh = false;
    this.parts.legend.hidden = header.names.length < 2;
    drawHeads(this.parts.legend, header.names, this.colours, this.active, (head) => this.toggle(head));
    this.parts.range.value = Math.round(this.share * 100);
    this.parts.percent.textContent = `${Math.round(this.share * 100)} %`;
    this.arrange();
    this.paint(); // in this frame: what it says of the lines takes room
    this.root.dataset.painted = header.id;
  }

  measure(width, header) {
    const longest = Math.max(header.queries, header.keys);
    const height = longest <= 24 ? 24 : longest <= 64 ? 21 : 18;
    if (height !== this.rowHeight) this.fresh = true;
    this.rowHeight = height;
    const letters = Math.max(...header.query_labels.map(length), ...header.key_labels.map(length));
    this.columnWidth = 66;
    const side = Math.floor(((1 - MIN_GAP_SHARE) * width) / 2); // of a token and its numbers
    const fit = Math.max(0, Math.floor((side - MIN_LABEL_WIDTH) / this.columnWidth));
    this.shown = [...this.active].sort((a, b) => a - b);
    this.columns = this.shown.slice(0, fit);
    this.valuesWidth = this.columns.length * this.columnWidth;
    this.labelWidth = Math.min(Math.max(letters * 8 + 34, MIN_LABEL_WIDTH), side - this.valuesWidth);
    this.lineWidth = width - 2 * (this.labelWidth + this.valuesWidth);
    this.isCrowded = longest > MAX_TOKENS_ALL_LINES;
  }

  drawLists(header) {
    const { queries, keys } = this.parts;
    const height = this.rowHeight;
    drawTokens(queries, header.query_labels, header.query_special, header.query_segments, "query", height);
    drawTokens(keys, header.key_labels, header.key_special, header.key_segments, "key", height);
  }

  arrange() {
    const { parts } = this;
    const { queries, keys } = this.model.header;
    parts.stage.style.gridTemplateColumns =
      `${this.valuesWidth}px ${this.labelWidth}px ${this.lineWidth}px ` +
      `${this.labelWidth}px ${this.valuesWidth}px`;
    parts.stage.style.height = `${Math.max(queries, keys) * this.rowHeight}px`;
    const unnumbered = this.shown.length - this.columns.length;
    const numbers = unnumbered && this.columns.length ? ` Numbers: the first ${this.columns.length} of ${this.shown.length} heads.` : "";
    const crowded = this.isCrowded ? ` Of more than ${MAX_TOKENS_ALL_LINES} tokens only the lines of that one are drawn.` : "";
    parts.hint.textContent = this.pin?.side === "query"
      ? `Pinned. Choose a key token on the right to study the pair; Escape clears the selection.${numbers}`
      : `Point at a token for its weights; click to pin it.${crowded}${numbers}`;
  }

  /** Paint everything that a move of the pointer changes: lines, marks, values. */
  refresh() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.model && this.paint());
  }

  paint() {
    const { parts, model, rowHeight } = this;
    const began = performance.now();
    const top = parts.scroller.scrollTop;
    const height = parts.scroller.clientHeight;
    const focus = this.pin ?? this.hover;
    let hidden = 0;
    const isDrawn = !this.isCrowded || Boolean(focus);
    const heads = !isDrawn ? [] : this.shown.map((head) => {
      const lines = model.lines(head, this.share);
      hidden += lines.all - lines.count;
      return { colour: this.colours[head], lines };
    });
    const drawn = hidden ? `${hidden.toLocaleString("en")} fainter lines not drawn` : "All lines drawn";
    parts.hidden.textContent = this.isCrowded ? "" : drawn;
    paintLines(parts.canvas, this.lineWidth, height, { height: rowHeight, top }, heads, focus);
    this.mark(focus);
    this.tint(focus);
    this.values(focus, Math.floor(top / rowHeight), Math.ceil((top + height) / rowHeight));
    this.root.dataset.paintMs = (performance.now() - began).toFixed(1);
  }

  mark(focus) {
    const { queries, keys } = this.parts;
    const set = (list, side) => {
      for (const row of list.querySelectorAll(".on, .pinned, .pair")) row.classList.remove("on", "pinned", "pair");
      const name = (index, word) => list.children[index]?.classList.add(word);
      if (focus?.side === side) name(focus.index, this.pin ? "pinned" : "on");
      if (this.pin && this.hover?.side === side) name(this.hover.index, "on");
      if (this.pair && side === "key") name(this.pair.key, "pair");
    };
    set(queries, "query");
    set(keys, "key");
    this.root.classList.toggle("focused", Boolean(focus));
  }

  /** Tint the tokens on the other side by their weight in the first head that is drawn. */
  tint(focus) {
    const { model, parts, theme } = this;
    const head = this.shown[0];
    const other = { query: "key", key: "query" }[focus?.side];
    const stops = PALETTE.sequential[theme];
    for (const [list, side] of [[parts.queries, "query"], [parts.keys, "key"]]) {
      const isTinted = side === other && head !== undefined;
      for (const row of list.querySelectorAll(".row")) {
        const index = Number(row.dataset.index);
        const weight = !isTinted ? 0 : side === "key" ? model.weight(head, focus.index, index) : model.weight(head, index, focus.index);
        const colour = isTinted ? colourAt(scaleWeight(weight, model.header.scale ?? "sqrt"), stops) : null;
        row.style.background = colour ? `rgb(${colour.join(" ")})` : "";
        row.style.color = colour ? inkOn(colour) : "";
      }
    }
  }

  values(focus, first, last) {
    const { parts, model } = this;
    const { queries, keys } = model.header;
    const draw = (element, count, of) => {
      const columns = focus ? this.columns.map((head) => ({ colour: this.colours[head], of: of(head) })) : [];
      const end = columns.length ? Math.min(last, count - 1) : -1;
      const cellSize = { height: this.rowHeight, width: this.columnWidth };
      drawValues(element, columns, Math.max(first - 1, 0), end, cellSize, model.header.exact);
    };
    const isQuery = focus?.side === "query";
    draw(parts.keysValues, isQuery ? keys : 0, (head) => (key) => model.weight(head, focus.index, key));
    draw(parts.queriesValues, focus && !isQuery ? queries : 0, (head) => (query) => model.weight(head, query, focus.index));
  }

  toggle(head) {
    if (!this.active.delete(head)) this.active.add(head);
    this.draw();
  }

  // -- events -------------------------------------------------------------------------------------

  listen() {
    const { parts } = this;
    for (const [list, side] of [[parts.queries, "query"], [parts.keys, "key"]]) {
      list.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.point(side, event));
      list.addEventListener("pointerleave", () => this.pointAt(null));
      list.addEventListener("click", (event) => this.click(side, rowOf(event)));
      list.addEventListener("keydown", (event) => this.key(side, event));
      list.addEventListener("focus", () => list.matches(":focus-visible") && this.pointAt(this.hover ?? { side, index: 0 }));
      list.addEventListener("blur", () => this.pointAt(null));
    }
    parts.scroller.addEventListener("scroll", () => this.refresh(), { passive: true });
    parts.range.addEventListener("input", () => {
      this.share = parts.range.value / 100;
      parts.percent.textContent = `${parts.range.value} %`;
      this.refresh();
    });
    // Lines follow the slider at once; the share is sent to Python when it is released.
    parts.range.addEventListener("change", () => this.emit("share", this.share));
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.unpin());
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  point(side, event) {
    const index = rowOf(event);
    this.pointAt(index < 0 ? null : { side, index });
  }

  pointAt(target) {
    if (this.hover?.side === target?.side && this.hover?.index === target?.index) return;
    this.hover = target;
    this.refresh();
  }

  click(side, index) {
    if (index < 0 || !this.model) return;
    this.announce({ side, index });
    if (this.pin?.side === "query" && side === "key") {
      const again = this.pair?.key === index;
      this.emit("pair", { query: this.pin.index, key: again ? -1 : index });
    } else if (this.pin?.side === side && this.pin.index === index) {
      this.unpin();
    } else {
      this.emit("pair", side === "query" ? { query: index, key: -1 } : { query: -1, key: index });
    }
  }

  unpin() {
    if (this.pin && this.model) this.emit("pair", { query: -1, key: -1 });
  }

  key(side, event) {
    if (!this.model || event.altKey || event.metaKey || event.ctrlKey) return;
    const { queries, keys } = this.model.header;
    const count = side === "query" ? queries : keys;
    const at = this.hover?.side === side ? this.hover.index : 0;
    const targets = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: count - 1, PageUp: at - 10, PageDown: at + 10 };
    if (event.key in targets) {
      const index = Math.min(Math.max(targets[event.key], 0), count - 1);
      this.pointAt({ side, index });
      this.listOf(side).children[index].scrollIntoView({ block: "nearest" });
      this.listOf(side).setAttribute("aria-activedescendant", `${side}-${index}`);
      this.announce({ side, index });
    } else if (event.key === "ArrowRight" && side === "query") this.parts.keys.focus();
    else if (event.key === "ArrowLeft" && side === "key") this.parts.queries.focus();
    else if (event.key === "Enter" || event.key === " ") this.click(side, at);
    else return;
    event.preventDefault();
  }

  listOf(side) {
    return side === "query" ? this.parts.queries : this.parts.keys;
  }

  /** The strongest partners of a token, as text for screen readers. */
  announce({ side, index }) {
    const { header } = this.model;
    const [mine, theirs] = side === "query"
      ? [header.query_labels, header.key_labels]
      : [header.key_labels, header.query_labels];
    const verb = side === "query" ? "looks at" : "is looked at by";
    const parts = this.shown.map((head) => {
      const weight = (other) =>
        side === "query" ? this.model.weight(head, index, other) : this.model.weight(head, other, index);
      const best = [...theirs.keys()].sort((a, b) => weight(b) - weight(a)).slice(0, 3);
      return `${header.names[head]}: ${best.map((i) => `${theirs[i]} ${weightText(weight(i), header.exact)}`).join(", ")}`;
    });
    this.parts.live.textContent = `${mine[index]} ${verb} ${parts.join("; ")}`;
  }
}

function length(label) {
  return [...label].length;
}

function rowOf(event) {
  const row = event.target.closest?.(".row");
  return row ? Number(row.dataset.index) : -1;
}
