// @ts-check
// All heads of a model on one canvas: rows are layers, columns are heads, or tiles in an order.
// Draws a payload (see payload.py) that another element has put into the page's store.

import { describeCell, ExactWeights } from "./grid_values.js";
import { hitTile, keyTarget, layoutOf } from "./grid_layout.js";
import { drawBadges, drawOff, paintMarks } from "./grid_marks.js";
import { paintGrid } from "../shared/grid_paint.js";
import { buildGridParts, drawAxes, drawCaptions, drawLegend, fillTip, TIP_MS, placeTip } from "./grid_parts.js";
import { payloadStore } from "../shared/payload_store.js";
import { colourTable, formatNumber, headName, pointOver, themeOf } from "../shared/shared.js";
/* global PALETTE */

const DWELL_MS = 90; // a pointer that rests so long (ms) asks for exact weights

export class HeadGrid {
  constructor(parent) {
    this.parts = buildGridParts();
    this.root = this.parts.root;
    parent.append(this.root);
    this.payload = null;
    this.exact = null;
    this.settings = {};
    this.selected = 0; // head number: layer * heads + head
    this.cursor = 0; // tile index that the keyboard is on
    this.hover = null;
    this.sent = null; // name of the last choice that was sent to Python
    this.painted = "";
    this.listen();
  }

  // -- what Python says ---------------------------------------------------------------------------

  update(settings, emit) {
    this.emit = emit;
    this.settings = settings;
    if (settings.error) return this.say(settings.error);
    this.payload = payloadStore().byId.get(settings.payload) ?? this.payload;
    if (!this.payload) return this.say("Drawing …");
    if (this.payload.header.id !== settings.payload) return; // the new one is on its way
    this.show();
  }

  /** Draws a payload that is there. */
  show(payload = this.payload, settings = this.settings, emit = this.emit) {
    Object.assign(this, { payload, settings, emit });
    try {
      this.adopt();
      this.draw();
      if (this.hover) this.showTip(); // exact weights may have come
    } catch (error) {
      this.say(`This picture cannot be drawn: ${error.message}`);
    }
  }

  /** Tell whether a payload is complete, and of the kind that is drawn here. */
  fits(header, body) {
    const { kind, layers, heads, rows, cols } = header;
    return kind === "grid" && body.length === layers * heads * rows * cols;
  }

  adopt() {
    const { header, body } = this.payload;
    if (!this.fits(header, body)) throw new Error("its data is cut short.");
    if (this.header !== header) {
      this.header = header;
      this.exact = this.settings.exact ?? new ExactWeights(header, () => this.showTip());
      this.hideTip();
    }
    // Settings that Python sent before it received the last choice are out of date.
    if (this.sent === null || this.settings.heard === this.sent) {
      const [layer, head] = this.settings.selected ?? [0, 0];
      const selected = layer * header.heads + head;
      if (selected !== this.selected) this.cursor = Math.max((this.heads ?? []).indexOf(selected), 0);
      this.selected = selected;
    }
    const all = [...Array(header.layers * header.heads).keys()];
    const ranked = this.settings.order?.map(([layer, head]) => layer * header.heads + head);
    const heads = ranked?.filter((head) => head in all) ?? all;
    if (!heads.length) throw new Error("no head is chosen.");
    if (String(heads) !== String(this.heads)) this.cursor = Math.max(heads.indexOf(this.selected), 0);
    this.heads = heads;
  }

  // -- drawing ------------------------------------------------------------------------------------

  draw() {
    const width = this.root.clientWidth;
    const header = this.payload?.header;
    if (!this.heads || header?.id !== this.settings.payload) return;
    if (width < 40) return; // a hidden tab: drawn when shown
    const { scale, order, fact, height } = this.settings;
    const theme = themeOf(this.root);
    const layout = layoutOf(header, order && this.heads.length, width, height);
    const values = this.values; // of a pair of tokens they change with the pair
    const appearance = [header.id, width, height, scale, order, fact, values, theme, devicePixelRatio];
    const state = JSON.stringify(appearance);
    if (state !== this.painted) {
      const began = performance.now();
      this.layout = layout;
      this.root.dataset.theme = theme;
      this.root.style.setProperty("--accent", PALETTE.accent[theme]);
      this.parts.message.hidden = true;
      this.parts.body.hidden = false;
      this.drawNames(header);
      this.paint(theme);
      this.painted = state;
      this.root.dataset.paintMs = (performance.now() - began).toFixed(1);
      this.root.dataset.painted = header.id;
    }
    this.over(theme);
    this.frame();
  }

  /** The tiles, and what their colours mean. */
  paint(theme) {
    const { parts, layout, payload, heads, settings: { scale, legend } } = this;
    drawLegend(parts.legend, scale, theme, this.root.clientWidth, payload.header.masked, legend);
    paintGrid(parts.canvas, layout, payload, heads, colourTable(scale, theme));
  }

  /** Paint the marks over the tiles: badges, and the chosen pair of tokens. */
  over(theme) {
    const { badges, off = [], offMark = "off", pair = { query: -1, key: -1 } } = this.settings;
    const { header } = this.payload;
    const over = JSON.stringify([this.painted, badges, off, offMark, pair]);
    if (over === this.overlaid) return;
    this.overlaid = over;
    drawBadges(this.parts.badges, this.layout, badges ? this.heads.map((head) => badges[head]) : []);
    drawOff(this.parts.off, this.layout, this.heads.flatMap((head, index) => (off.includes(head) ? [index] : [])), offMark);
    paintMarks(this.parts.marks, this.layout, header, this.heads.length, pair, PALETTE.accent[theme]);
  }

  drawNames(header) {
    const { parts, layout } = this;
    parts.rows.hidden = layout.flow;
    parts.rows.style.width = `${layout.left}px`;
    if (layout.flow) {
      const { values } = this;
      const names = this.heads.map((head) => this.name(head));
      parts.columns.replaceChildren();
      drawCaptions(parts.captions, layout, names, values && this.heads.map((head) => values[head]));
    } else {
      parts.captions.replaceChildren();
      drawAxes(parts.rows, parts.columns, layout, header);
    }
    const { height } = this.settings;
    parts.scroller.style.maxHeight = layout.flow && height ? `${height}px` : "";
    parts.stage.style.width = `${layout.width}px`;
    parts.stage.style.height = `${layout.height}px`;
    const side = `${header.pool} × ${header.pool}`;
    parts.note.textContent = header.pool > 1 ? `Each cell is the largest of ${side} weights.` : "";
    const titleText = header.title ? ` of ${header.title}` : "";
    parts.canvas.setAttribute(
      "aria-label",
      `Attention heads${titleText}: ${header.layers} layers with ${header.heads} heads each. ` +
        "Arrow keys move between heads, Enter selects.",
    );
  }

  /** Frames are elements over the canvas: moving them repaints nothing. */
  frame() {
    const { parts, layout } = this;
    const put = (element, index, out) => {
      element.hidden = index < 0;
      if (index < 0) return;
      const { x, y } = layout.tileAt(index);
      element.style.transform = `translate(${x - out}px, ${y - out}px)`;
      element.style.width = `${layout.tileWidth + 2 * out}px`;
      element.style.height = `${layout.tileHeight + 2 * out}px`;
    };
    const focused = parts.root.querySelector("canvas:focus-visible") !== null;
    put(parts.selected, this.heads.indexOf(this.selected), 3);
    put(parts.hovered, this.hover?.index ?? -1, 3);
    put(parts.focused, focused ? this.cursor : -1, 3);
    this.root.dataset.selected = this.name(this.selected);
    const { heads } = this.payload.header;
    const mark = (labels, number) =>
      [...labels.children].forEach((label, i) => label.classList.toggle("on", i === number));
    mark(parts.rows, Math.floor(this.selected / heads));
    mark(parts.columns, this.selected % heads);
  }

  /** The quantity that heads are sorted by, one number for each. */
  get values() {
    const { values, fact } = this.settings;
    return values ?? this.payload.header.facts[fact];
  }

  name(head) {
    return headName(this.payload.header, head);
  }

  fact(head) {
    const { fact } = this.settings;
    const { values } = this;
    return values ? { name: fact, value: values[head] } : null;
  }

  say(text) {
    this.parts.message.textContent = text;
    this.parts.message.hidden = false;
    this.parts.body.hidden = true;
    this.painted = "";
  }

  // -- pointer ------------------------------------------------------------------------------------

  listen() {
    const { stage, canvas } = this.parts;
    stage.addEventListener("pointermove", (event) => this.move(event));
    stage.addEventListener("pointerleave", () => this.hideTip());
    stage.addEventListener("click", (event) => {
      const hit = this.hit(event);
      if (!hit) return;
      this.cursor = hit.index;
      const { several } = this.settings;
      if (several && (event.ctrlKey || event.metaKey || event.shiftKey)) {
        several(this.heads[hit.index]);
        return;
      }
      this.select(this.heads[hit.index]);
      this.move(event); // a tap shows what it hit, too, for a while
      if (event.pointerType === "touch") this.leave = setTimeout(() => this.hideTip(), TIP_MS);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.layout && this.frame());
    canvas.addEventListener("blur", () => this.layout && this.frame());
    this.parts.scroller.addEventListener("scroll", () => this.hideTip());
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
    this.arrived = (id) => id === this.settings.payload && this.update(this.settings, this.emit);
    payloadStore().listeners.add(this.arrived);
    this.schemes = matchMedia("(prefers-color-scheme: dark)");
    this.themed = () => this.draw();
    this.schemes.addEventListener("change", this.themed);
  }

  close() {
    this.resized.disconnect();
    this.schemes.removeEventListener("change", this.themed);
    payloadStore().listeners.delete(this.arrived);
    clearTimeout(this.dwell);
    clearTimeout(this.leave);
  }

  hit(event) {
    if (!this.layout) return null;
    const { x, y } = pointOver(this.parts.stage, event);
    return hitTile(this.layout, x, y);
  }

  move(event) {
    const hit = this.hit(event);
    if (!hit) return this.hideTip();
    const { rows, cols } = this.payload.header;
    const isCell = hit.inside && !this.payload.header.flat; // a metric's tile has none
    const row = isCell ? Math.floor(hit.down * rows) : -1;
    const column = isCell ? Math.floor(hit.across * cols) : -1;
    const at = pointOver(this.root, event);
    const same = this.hover?.index === hit.index;
    this.hover = { index: hit.index, row, column, ...at };
    if (!same) {
      this.frame();
      clearTimeout(this.dwell);
      this.dwell = setTimeout(() => this.exact.request(this.heads[hit.index]), DWELL_MS);
    }
    this.showTip();
  }

  showTip() {
    if (!this.hover) return;
    const { index, row, column, x, y } = this.hover;
    const head = this.heads[index];
    const { tip, cell } = this.parts;
    const exactWeights = this.exact.of(head);
    const described = row < 0 ? null : describeCell(this.payload, head, row, column, exactWeights);
    fillTip(tip, this.payload.header, this.name(head), this.fact(head), described);
    placeTip(tip, this.root, x, y);
    cell.hidden = !described;
    if (described) this.frameCell(index, row, column);
  }

  frameCell(index, row, column) {
    const { rows, cols } = this.payload.header;
    const { tileWidth, tileHeight } = this.layout;
    const { x, y } = this.layout.tileAt(index);
    const [width, height] = [tileWidth / cols, tileHeight / rows];
    const { cell } = this.parts;
    // A cell of one pixel still gets a frame that can be seen.
    const [grownX, grownY] = [Math.max(width, 4), Math.max(height, 4)];
    const left = x + column * width + (width - grownX) / 2;
    const top = y + row * height + (height - grownY) / 2;
    cell.style.transform = `translate(${left - 1}px, ${top - 1}px)`;
    cell.style.width = `${grownX + 2}px`;
    cell.style.height = `${grownY + 2}px`;
  }

  hideTip() {
    this.hover = null;
    clearTimeout(this.dwell);
    clearTimeout(this.leave);
    this.parts.tip.hidden = true;
    this.parts.cell.hidden = true;
    this.parts.hovered.hidden = true;
  }

  // -- keyboard and selection ---------------------------------------------------------------------

  key(event) {
    if (!this.layout || event.altKey || event.metaKey) return;
    const target = keyTarget(this.layout, this.cursor, event.key, event.ctrlKey);
    if (target !== null) {
      if (target >= 0) this.walk(target);
    } else if (event.key === "Enter" || event.key === " ") {
      this.select(this.heads[this.cursor]);
    } else if (event.key === "Escape") {
      this.hideTip();
    } else return;
    event.preventDefault();
  }

  walk(target) {
    this.cursor = target;
    this.hideTip();
    this.frame();
    this.announce(this.heads[target]);
    this.parts.focused.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  select(head) {
    this.selected = head;
    this.sent = Math.random().toString(36).slice(2);
    this.frame();
    this.announce(head);
    const { heads } = this.payload.header;
    this.emit({ id: this.sent, layer: Math.floor(head / heads), head: head % heads });
  }

  announce(head) {
    const fact = this.fact(head);
    const about = fact ? `, ${fact.name} ${formatNumber(fact.value)}` : "";
    const chosen = head === this.selected ? ", selected" : "";
    const more = this.settings.describe?.(head) ?? "";
    this.parts.live.textContent = `${this.name(head)}${about}${chosen}${more}`;
  }
}
