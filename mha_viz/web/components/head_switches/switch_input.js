// @ts-check
// Pointer and keyboard of the head switches: what they press, drag over and walk to.
// The view (head_switches.js) switches and draws; here is known only where a hand is.

import { NAMES, passed } from "./switch_parts.js";

const HOLD = 320; // where fingers scroll sideways, one that rests so long (ms) begins to switch
const TAPPED = 800; // so long (ms) after a pointer a click is the same deed once more

export class SwitchInput {
  constructor(view) {
    this.view = view;
    this.reset();
    this.listen();
  }

  /** As for a new table. */
  reset() {
    clearTimeout(this.drag?.hold);
    this.drag = null; // from a pointer's going down to its coming up: what it switches, and to what
    this.cursor = [0, 0]; // row and column that the keyboard is on; -1: the names
  }

  listen() {
    const { stage, scroller } = this.view;
    const on = (name, handler, options) => stage.addEventListener(name, handler, options);
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.up(event, true));
    on("pointerleave", () => this.view.point(null));
    on("click", (event) => this.click(event));
    on("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());
    // A finger that has begun to switch must not scroll any more; this cannot be said in CSS.
    on("touchmove", (event) => this.drag?.painting && event.cancelable && event.preventDefault(), { passive: false });
    on("keydown", (event) => this.key(event));
    on("focusin", (event) => event.target.matches(":focus-visible") && this.view.point(event.target));
    on("focusout", (event) => stage.contains(event.relatedTarget) || this.leave());
    scroller.addEventListener("scroll", () => this.view.point(null));
  }

  close() {
    clearTimeout(this.drag?.hold);
  }

  leave() {
    this.view.point(null);
    this.view.send();
  }

  // -- pointer ------------------------------------------------------------------------------------

  down(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.button !== 0 || !event.isPrimary) return;
    this.pressed = performance.now();
    const [row, column] = [tile.mhaRow, tile.mhaColumn];
    const off = !this.view.off.has(row * this.view.settings.heads + column);
    this.drag = { id: event.pointerId, last: [row, column], off, painting: false };
    this.put(row, column);
    if (event.pointerType !== "touch") {
      this.view.stage.setPointerCapture(event.pointerId);
      this.paint();
    } else if (this.view.overflows) this.drag.hold = setTimeout(() => this.paint(), HOLD);
  }

  paint() {
    this.drag.painting = true;
    this.view.set(this.view.members(...this.drag.last), this.drag.off);
  }

  move(event) {
    const { drag } = this;
    if (!drag || drag.id !== event.pointerId) {
      return event.pointerType === "touch" || this.view.point(event.target.closest(".tile, .name"));
    }
    const [row, column] = this.hit(event);
    const [fromRow, fromColumn] = drag.last;
    if (row === null || (row === fromRow && column === fromColumn)) return;
    if (!drag.painting) {
      if (this.view.overflows || row !== fromRow) return; // the finger is about to scroll
      this.paint();
    }
    const line = passed(drag.last, [row, column]);
    drag.last = [row, column];
    this.view.set(line.map(([i, j]) => i * this.view.settings.heads + j), drag.off);
    this.view.point(this.view.at(row, column));
  }

  /** Row and column of the tile below the pointer; nulls beside the grid. */
  hit(event) {
    const box = this.view.stage.getBoundingClientRect();
    const { pitch } = this.view.sizes;
    const column = Math.floor((event.clientX - box.left - NAMES) / pitch);
    const top = this.view.at(0, 0).getBoundingClientRect().top;
    const row = Math.floor((event.clientY - top) / pitch);
    const { layers, heads } = this.view.settings;
    return row >= 0 && row < layers && column >= 0 && column < heads ? [row, column] : [null, null];
  }

  up(event, cancelled = false) {
    const { drag } = this;
    if (!drag || drag.id !== event.pointerId) return;
    this.pressed = performance.now();
    clearTimeout(drag.hold);
    if (!drag.painting && !cancelled) {
      this.paint(); // a tap
      this.view.point(this.view.at(...drag.last));
    }
    this.drag = null;
    if (this.view.waiting) this.view.soon();
  }

  /** Names, and tiles that something other than a pointer clicks: a screen reader. */
  click(event) {
    const item = event.target.closest(".tile, .name");
    if (!item) return;
    const again = item.matches(".tile") && performance.now() - this.pressed < TAPPED;
    if (again) return;
    this.put(item.mhaRow, item.mhaColumn);
    this.view.toggle(item.mhaRow, item.mhaColumn);
  }

  // -- keyboard -----------------------------------------------------------------------------------

  put(row, column) {
    this.view.at(...this.cursor).tabIndex = -1;
    this.cursor = [row, column];
    this.view.at(row, column).tabIndex = 0;
  }

  key(event) {
    if (event.altKey || event.metaKey) return;
    const [row, column] = this.cursor;
    const { layers, heads } = this.view.settings;
    const [first, last] = event.ctrlKey ? [[0, 0], [layers - 1, heads - 1]] : [[row, 0], [row, heads - 1]];
    const targets = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column], Home: first, End: last,
    };
    if (Object.hasOwn(targets, event.key)) this.walk(...targets[event.key]);
    else if (event.key === " " && event.shiftKey && row >= 0) this.view.toggle(row, -1);
    else if (event.key === " " || event.key === "Enter") this.view.toggle(row, column);
    else if (event.key === "Escape") this.view.point(null);
    else return;
    event.preventDefault();
  }

  walk(row, column) {
    const { layers, heads } = this.view.settings;
    if (row < -1 || column < -1 || row >= layers || column >= heads || row + column < -1) return;
    this.put(row, column);
    const item = this.view.at(row, column);
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
    const hidden = NAMES + this.view.scroller.getBoundingClientRect().left - item.getBoundingClientRect().left;
    if (column >= 0 && hidden > 0) this.view.scroller.scrollLeft -= hidden; // below the layers' names
    this.view.point(item);
  }
}
