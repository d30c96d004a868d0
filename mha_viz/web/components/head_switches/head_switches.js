// @ts-check
// All heads of a model as switches: rows are layers, columns are heads; colour is a value. Where
// Python names a payload, each tile holds its head's pattern and label.
// A change shows here at once; Python gets the whole set a moment later.

import { paintGrid } from "../shared/grid_paint.js";
import { colourTable, endOf, formatNumber, headName, layerName, make, payloadStore, roomBelow, themeOf, viewOf } from "../shared/shared.js";
import { SwitchInput } from "./switch_input.js";
import { badgeText, NAMES, patternLayout, switchLegend, switchTable, tileColour, tileSizes } from "./switch_parts.js";
/* global PALETTE */

const AROUND = 60; // pixels of what stands above and below the tiles
const WAIT = 150; // changes that follow a message so closely (ms) are sent together

class HeadSwitches {
  constructor(parent) {
    this.root = make("div", "mha head-switches");
    this.top = make("div", "top");
    this.count = make("div", "count");
    this.legend = make("div", "legend");
    this.scroller = make("div", "scroller");
    this.stage = make("div", "stage");
    this.hint = make("div", "hint");
    this.tip = make("div", "tip");
    this.live = make("div", "live");
    this.patterns = make("canvas", "patterns");
    this.patterns.setAttribute("aria-hidden", "true");
    /** @type {any[]} row by row */
    this.tiles = [];
    /** @type {any[]} */
    this.columnNames = [];
    /** @type {any[]} */
    this.layerNames = [];
    this.live.setAttribute("aria-live", "polite");
    this.stage.setAttribute("role", "grid");
    this.tip.hidden = true;
    this.top.append(this.count, this.legend);
    this.scroller.append(this.stage);
    this.root.append(this.top, this.scroller, this.hint, this.tip, this.live);
    parent.append(this.root);
    this.off = new Set(); // head numbers: layer * heads + head
    this.known = ""; // the set that Python and this grid last agreed on, or that is on its way
    this.sent = null; // name of the last message
    this.sentAt = -WAIT;
    this.input = new SwitchInput(this);
    this.watch();
  }

  // -- what Python says ---------------------------------------------------------------------------

  update(settings, emit) {
    this.emit = emit;
    const { layers, heads, off, heard } = settings;
    const numbers = String(settings.layer_numbers ?? "");
    const renamed = numbers !== String(this.settings?.layer_numbers ?? "");
    const other = layers !== this.settings?.layers || heads !== this.settings?.heads || renamed;
    this.settings = settings;
    if (other) this.build(settings);
    // What was said before our last message was heard, or while one waits, is out of date.
    const behind = this.waiting || this.input.drag || (this.sent && heard !== this.sent);
    if (other || !behind) {
      clearTimeout(this.waiting);
      this.waiting = 0;
      this.off = new Set(off.map(([layer, head]) => layer * heads + head));
      this.known = this.text();
    }
    this.draw();
  }

  build(settings) {
    this.input.reset();
    const { rows, ...parts } = switchTable(settings);
    Object.assign(this, parts);
    this.stage.replaceChildren(this.patterns, ...rows);
    this.painted = "";
    this.at(0, 0).tabIndex = 0;
  }

  // -- drawing ------------------------------------------------------------------------------------

  draw() {
    const width = this.root.clientWidth;
    if (!this.settings || width < 40) return; // a hidden tab: drawn when shown
    const { layers, heads, value, payload } = this.settings;
    this.theme = themeOf(this.root);
    this.root.dataset.theme = this.theme;
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
    const drawn = Boolean(payload);
    this.sizes = tileSizes(width, layers, heads, drawn, roomBelow(this.root, AROUND));
    const { pitch, gap, readable } = this.sizes;
    this.overflows = NAMES + heads * pitch > width;
    this.scroller.classList.toggle("overflowing", this.overflows);
    const pixels = { names: NAMES, pitch, gap };
    for (const [name, size] of Object.entries(pixels)) this.stage.style.setProperty(`--${name}`, `${size}px`);
    this.stage.style.setProperty("--heads", heads);
    this.stage.classList.toggle("drawn", drawn);
    this.stage.classList.toggle("readable", readable);
    this.stage.classList.toggle("valued", value !== null);
    this.stage.setAttribute("aria-label", `Switches of ${layers} layers with ${heads} heads each`);
    this.tiles.forEach((tile, index) => {
      const number = value?.numbers[index];
      tile.classList.toggle("missing", value !== null && number === null);
      if (value) tile.style.setProperty("--tile", tileColour(value, this.theme, number));
      else tile.style.removeProperty("--tile");
      tile.firstChild.textContent = this.notes ? badgeText(this.notes, index) : "";
    });
    this.paint();
    this.legend.replaceChildren(...switchLegend(value, this.settings.name, this.theme));
    this.hint.textContent = this.overflows && matchMedia("(pointer: coarse)").matches
      ? "Swipe to scroll; hold a head, then drag, to switch several." : "";
    this.drawStates();
  }

  /** The patterns, on one canvas behind the tiles; they stay where only switches change. */
  paint() {
    const { layers, heads, payload: id, scale } = this.settings;
    const payload = payloadStore().byId.get(id);
    const layout = patternLayout(this.sizes, layers, heads);
    const state = [id, scale, this.theme, layout.width, layout.height, devicePixelRatio].join();
    this.patterns.hidden = !payload;
    if (!payload || state === this.painted) return;
    paintGrid(this.patterns, layout, payload, [...this.tiles.keys()], colourTable(scale, this.theme));
    this.painted = state;
    this.root.dataset.painted = id;
  }

  drawStates() {
    const { selected, heads } = this.settings;
    const chosen = selected ? selected[0] * heads + selected[1] : -1;
    this.tiles.forEach((tile, index) => {
      const off = this.off.has(index);
      tile.classList.toggle("selected", index === chosen);
      const label = this.describe(tile);
      if (tile.ariaLabel === label) return;
      tile.classList.toggle("off", off);
      tile.setAttribute("aria-checked", String(!off));
      tile.setAttribute("aria-label", label);
    });
    for (const name of [...this.layerNames, ...this.columnNames]) {
      name.setAttribute("aria-label", this.describe(name));
    }
    const all = this.tiles.length;
    this.count.textContent = this.off.size ? `${this.off.size} of ${all} heads off` : `All ${all} heads on`;
    if (!this.tip.hidden) this.tip.textContent = this.pointed ? this.describe(this.pointed) : "";
  }

  /** "L3 H7, on, Induction, importance 0.012", "Layer 3: 2 of 12 heads off", "Head 7: 1 of 12 layers off". */
  describe({ mhaRow: row, mhaColumn: column }) {
    const { heads, value, name } = this.settings;
    if (row < 0 || column < 0) {
      const members = this.members(row, column);
      const off = members.filter((index) => this.off.has(index)).length;
      const [what, others] = row < 0 ? [`Head ${column}`, "layers"] : [`Layer ${layerName(this.settings, row).slice(1)}`, "heads"];
      return `${what}: ${off} of ${members.length} ${others} off`;
    }
    const index = row * heads + column;
    const state = this.off.has(index) ? "off" : "on";
    const number = value ? `, ${name || "value"} ${formatNumber(value.numbers[index])}` : "";
    return [headName(this.settings, index), state, ...(this.notes?.labels[index] ?? [])].join(", ") + number;
  }

  /** Names what the pointer or the keyboard is on, above it or, where there is no room, below. */
  point(item) {
    if (item && item === this.pointed) return;
    this.pointed = item;
    this.tip.hidden = !item;
    if (!item) return;
    this.tip.textContent = this.describe(item);
    const [around, box] = [this.root, item].map((element) => element.getBoundingClientRect());
    const left = box.left - around.left + box.width / 2 - this.tip.offsetWidth / 2;
    const room = around.width - this.tip.offsetWidth;
    const above = box.top - this.tip.offsetHeight - 8;
    this.tip.style.left = `${Math.max(0, Math.min(left, room))}px`;
    this.tip.style.top = `${(above > 0 ? above : box.bottom + 8) - around.top}px`;
  }

  /** The heads' labels, which come after their patterns. */
  get notes() {
    return payloadStore().byId.get(`${this.settings.payload} notes`)?.header;
  }

  // -- switching ----------------------------------------------------------------------------------

  /** The tile of a row and a column; the name of one where the other is -1. */
  at(row, column) {
    if (row < 0) return this.columnNames[column];
    return column < 0 ? this.layerNames[row] : this.tiles[row * this.settings.heads + column];
  }

  /** Head numbers of a tile, or of all tiles that a name stands for. */
  members(row, column) {
    const { heads } = this.settings;
    const all = [...this.tiles.keys()];
    if (row >= 0 && column >= 0) return [row * heads + column];
    return row < 0 ? all.filter((i) => i % heads === column) : all.filter((i) => Math.floor(i / heads) === row);
  }

  /** Switches a head, or a whole row or column: all off, and on again where none was on. */
  toggle(row, column) {
    const members = this.members(row, column);
    this.set(members, members.some((index) => !this.off.has(index)));
    if (members.length > 1) {
      this.live.textContent = this.describe({ mhaRow: row, mhaColumn: column });
    }
  }

  set(indices, off) {
    for (const index of indices) {
      if (off) this.off.add(index);
      else this.off.delete(index);
    }
    this.drawStates();
    this.soon();
  }

  /** Sends at once what comes alone; a row of changes waits for its end, or for the next beat. */
  soon() {
    clearTimeout(this.waiting);
    const rest = WAIT - (performance.now() - this.sentAt);
    this.waiting = setTimeout(() => this.send(), Math.max(rest, 0));
  }

  /** All heads that are off, as one message; nothing while a drag goes on, or where nothing changed. */
  send() {
    clearTimeout(this.waiting);
    if (!this.waiting || this.input.drag?.painting) return;
    this.waiting = 0;
    if (this.text() === this.known) return;
    this.known = this.text();
    const { layers, heads } = this.settings;
    const off = JSON.parse(this.known).map((index) => [Math.floor(index / heads), index % heads]);
    this.sent = Math.random().toString(36).slice(2);
    this.sentAt = performance.now();
    this.emit({ id: this.sent, of: [layers, heads], off });
  }

  text() {
    return JSON.stringify([...this.off].sort((a, b) => a - b));
  }

  // -- from outside -------------------------------------------------------------------------------

  watch() {
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
    globalThis.addEventListener("resize", (this.redraw = () => this.draw()));
    this.arrived = (id) => this.settings?.payload && id.startsWith(this.settings.payload) && this.draw();
    payloadStore().listeners.add(this.arrived);
    this.schemes = matchMedia("(prefers-color-scheme: dark)");
    this.schemes.addEventListener("change", this.redraw);
    // What is pressed elsewhere must come after what was switched here.
    this.outside = (event) => !event.composedPath().includes(this.root) && this.send();
    document.addEventListener("pointerdown", this.outside, true);
  }

  close() {
    clearTimeout(this.waiting);
    this.input.close();
    this.resized.disconnect();
    payloadStore().listeners.delete(this.arrived);
    globalThis.removeEventListener("resize", this.redraw);
    this.schemes.removeEventListener("change", this.redraw);
    document.removeEventListener("pointerdown", this.outside, true);
  }
}

export default function headSwitches(component) {
  const { parentElement, data, setTriggerValue } = component;
  const view = viewOf(parentElement, "headSwitches", () => new HeadSwitches(parentElement));
  view.update(data, (value) => setTriggerValue("switch", value));
  return endOf(parentElement, "headSwitches");
}
