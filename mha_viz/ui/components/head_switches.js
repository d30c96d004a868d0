// All heads of a model as switches: rows are layers, columns are heads; colour is a value.
// A change shows here at once; Python gets the whole set a moment later.

import { formatNumber, make, themeOf, viewOf } from "./shared.js";
import { passed, switchLegend, switchTable, tileColour } from "./switch_parts.js";
/* global PALETTE */

const WAIT = 150; // changes that follow a message so closely (ms) are sent together
const HOLD = 320; // where fingers scroll sideways, one that rests so long (ms) begins to switch
const TAPPED = 800; // so long (ms) after a pointer a click is the same deed once more
const NAMES = 28; // width of the layers' names
const SMALLEST = 27, LARGEST = 44; // of a tile with the gap beside it

class HeadSwitches {
  constructor(parent) {
    this.root = make("div", "mha head-switches");
    for (const name of ["top", "count", "legend", "scroller", "stage", "hint", "tip", "live"]) {
      this[name] = make("div", name);
    }
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
    this.cursor = [0, 0]; // row and column that the keyboard is on; -1: the names
    this.listen();
  }

  // -- what Python says ---------------------------------------------------------------------------

  update(settings, emit) {
    this.emit = emit;
    const { layers, heads, off, heard, stale } = settings;
    const other = layers !== this.settings?.layers || heads !== this.settings?.heads;
    this.settings = settings;
    if (other) this.build(layers, heads);
    // What was said before our last message was heard, or while one waits, is out of date.
    const behind = stale || this.waiting || this.drag || (this.sent && heard !== this.sent);
    if (other || !behind) {
      clearTimeout(this.waiting);
      this.waiting = 0;
      this.off = new Set(off.map(([layer, head]) => layer * heads + head));
      this.known = this.text();
    }
    this.draw();
  }

  build(layers, heads) {
    this.drag = null;
    this.cursor = [0, 0];
    const { rows, ...parts } = switchTable(layers, heads);
    Object.assign(this, parts);
    this.stage.replaceChildren(...rows);
    this.at(0, 0).tabIndex = 0;
  }

  // -- drawing ------------------------------------------------------------------------------------

  draw() {
    const width = this.root.clientWidth;
    if (!this.settings || width < 40) return; // a hidden tab: drawn when shown
    const { layers, heads, value } = this.settings;
    this.theme = themeOf(this.root);
    this.root.dataset.theme = this.theme;
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
    const fit = Math.floor((width - NAMES) / heads);
    this.pitch = Math.min(Math.max(fit, SMALLEST), LARGEST);
    this.overflows = NAMES + heads * this.pitch > width;
    this.scroller.classList.toggle("overflowing", this.overflows);
    const sizes = { names: `${NAMES}px`, heads, pitch: `${this.pitch}px` };
    sizes.size = `${this.pitch - Math.min(Math.max(this.pitch - 26, 1), 4)}px`;
    for (const [name, size] of Object.entries(sizes)) this.stage.style.setProperty(`--${name}`, size);
    this.stage.setAttribute("aria-label", `Switches of ${layers} layers with ${heads} heads each`);
    this.tiles.forEach((tile, index) => {
      const number = value?.numbers[index];
      tile.classList.toggle("missing", value !== null && number === null);
      if (value) tile.style.setProperty("--tile", tileColour(value, this.theme, number));
      else tile.style.removeProperty("--tile");
    });
    this.legend.replaceChildren(...switchLegend(value, this.settings.name, this.theme));
    this.hint.textContent = this.overflows && matchMedia("(pointer: coarse)").matches
      ? "Swipe to scroll; hold a head, then drag, to switch several." : "";
    this.drawStates();
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

  /** "L3 H7, on, importance 0.012", "Layer 3: 2 of 12 heads off", "Head 7: 1 of 12 layers off". */
  describe({ mhaRow: row, mhaColumn: column }) {
    const { heads, value, name } = this.settings;
    if (row < 0 || column < 0) {
      const members = this.members(row, column);
      const off = members.filter((index) => this.off.has(index)).length;
      const [what, others] = row < 0 ? [`Head ${column}`, "layers"] : [`Layer ${row}`, "heads"];
      return `${what}: ${off} of ${members.length} ${others} off`;
    }
    const index = row * heads + column;
    const state = this.off.has(index) ? "off" : "on";
    const number = value ? `, ${name || "value"} ${formatNumber(value.numbers[index])}` : "";
    return `L${row} H${column}, ${state}${number}`;
  }

  // -- switching ----------------------------------------------------------------------------------

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
    if (!this.waiting || this.drag?.painting) return;
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

  // -- pointer ------------------------------------------------------------------------------------

  listen() {
    const { stage } = this;
    const on = (name, handler, options) => stage.addEventListener(name, handler, options);
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.up(event, true));
    on("pointerleave", () => this.point(null));
    on("click", (event) => this.click(event));
    on("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());
    // A finger that has begun to switch must not scroll any more; this cannot be said in CSS.
    on("touchmove", (event) => this.drag?.painting && event.cancelable && event.preventDefault(), { passive: false });
    on("keydown", (event) => this.key(event));
    on("focusin", (event) => event.target.matches(":focus-visible") && this.point(event.target));
    on("focusout", (event) => stage.contains(event.relatedTarget) || this.leave());
    this.scroller.addEventListener("scroll", () => this.point(null));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
    this.schemes = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.schemes.addEventListener("change", this.redraw);
    // What is pressed elsewhere must come after what was switched here.
    this.outside = (event) => !event.composedPath().includes(this.root) && this.send();
    document.addEventListener("pointerdown", this.outside, true);
  }

  close() {
    clearTimeout(this.waiting);
    clearTimeout(this.drag?.hold);
    this.resized.disconnect();
    this.schemes.removeEventListener("change", this.redraw);
    document.removeEventListener("pointerdown", this.outside, true);
  }

  leave() {
    this.point(null);
    this.send();
  }

  down(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.button !== 0 || !event.isPrimary) return;
    this.pressed = performance.now();
    const [row, column] = [tile.mhaRow, tile.mhaColumn];
    const off = !this.off.has(row * this.settings.heads + column);
    this.drag = { id: event.pointerId, last: [row, column], off, painting: false };
    this.put(row, column);
    if (event.pointerType !== "touch") {
      this.stage.setPointerCapture(event.pointerId);
      this.paint();
    } else if (this.overflows) this.drag.hold = setTimeout(() => this.paint(), HOLD);
  }

  paint() {
    this.drag.painting = true;
    this.set(this.members(...this.drag.last), this.drag.off);
  }

  move(event) {
    const { drag } = this;
    if (!drag || drag.id !== event.pointerId) {
      return event.pointerType === "touch" || this.point(event.target.closest(".tile, .name"));
    }
    const [row, column] = this.hit(event);
    const [fromRow, fromColumn] = drag.last;
    if (row === null || (row === fromRow && column === fromColumn)) return;
    if (!drag.painting) {
      if (this.overflows || row !== fromRow) return; // the finger is about to scroll
      this.paint();
    }
    const line = passed(drag.last, [row, column]);
    drag.last = [row, column];
    this.set(line.map(([i, j]) => i * this.settings.heads + j), drag.off);
    this.point(this.at(row, column));
  }

  /** Row and column of the tile below the pointer; nulls beside the grid. */
  hit(event) {
    const box = this.stage.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - NAMES) / this.pitch);
    const top = this.at(0, 0).getBoundingClientRect().top;
    const row = Math.floor((event.clientY - top) / this.pitch);
    const { layers, heads } = this.settings;
    return row >= 0 && row < layers && column >= 0 && column < heads ? [row, column] : [null, null];
  }

  up(event, cancelled = false) {
    const { drag } = this;
    if (!drag || drag.id !== event.pointerId) return;
    this.pressed = performance.now();
    clearTimeout(drag.hold);
    if (!drag.painting && !cancelled) {
      this.paint(); // a tap
      this.point(this.at(...drag.last));
    }
    this.drag = null;
    if (this.waiting) this.soon();
  }

  /** Names, and tiles that something other than a pointer clicks: a screen reader. */
  click(event) {
    const item = event.target.closest(".tile, .name");
    if (!item) return;
    const again = item.matches(".tile") && performance.now() - this.pressed < TAPPED;
    if (again) return;
    this.put(item.mhaRow, item.mhaColumn);
    this.toggle(item.mhaRow, item.mhaColumn);
  }

  // -- keyboard and tooltip -----------------------------------------------------------------------

  at(row, column) {
    if (row < 0) return this.columnNames[column];
    return column < 0 ? this.layerNames[row] : this.tiles[row * this.settings.heads + column];
  }

  put(row, column) {
    this.at(...this.cursor).tabIndex = -1;
    this.cursor = [row, column];
    this.at(row, column).tabIndex = 0;
  }

  key(event) {
    if (event.altKey || event.metaKey) return;
    const [row, column] = this.cursor;
    const { layers, heads } = this.settings;
    const [first, last] = event.ctrlKey ? [[0, 0], [layers - 1, heads - 1]] : [[row, 0], [row, heads - 1]];
    const targets = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column], Home: first, End: last,
    };
    if (Object.hasOwn(targets, event.key)) this.walk(...targets[event.key]);
    else if (event.key === " " && event.shiftKey && row >= 0) this.toggle(row, -1);
    else if (event.key === " " || event.key === "Enter") this.toggle(row, column);
    else if (event.key === "Escape") this.point(null);
    else return;
    event.preventDefault();
  }

  walk(row, column) {
    const { layers, heads } = this.settings;
    if (row < -1 || column < -1 || row >= layers || column >= heads || row + column < -1) return;
    this.put(row, column);
    const item = this.at(row, column);
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
    const hidden = NAMES + this.scroller.getBoundingClientRect().left - item.getBoundingClientRect().left;
    if (column >= 0 && hidden > 0) this.scroller.scrollLeft -= hidden; // below the layers' names
    this.point(item);
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
}

export default function headSwitches(component) {
  const { parentElement, data, setTriggerValue } = component;
  const view = viewOf(parentElement, "headSwitches", () => new HeadSwitches(parentElement));
  view.update(data, (value) => setTriggerValue("switch", value));
  return () => {
    view.close();
    view.root.remove();
    delete parentElement.mhaViews.headSwitches;
  };
}
