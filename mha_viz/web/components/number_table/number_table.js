// @ts-check
// Small matrices with their numbers in their cells. Whatever changes is changed in place.
// Exact values are shown at the pointer, and for the cell that arrow keys go to.

import { matrixTable, numberColour, paintPixels } from "./number_parts.js";
import { endOf, formatNumber, inkOn, make, themeOf, viewOf } from "../shared/shared.js";
/* global PALETTE */

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

class NumberTable {
  constructor(parent) {
    this.root = make("figure", "number-table");
    this.caption = make("figcaption");
    this.title = make("b");
    this.shape = make("span");
    /** @type {any} the last settings from Python */
    this.data = null;
    /** @type {((at: number[], of: number[]) => void) | null} sends a chosen cell, where cells can be clicked */
    this.emit = null;
    /** @type {any} */
    this.table = null;
    /** @type {any[] | null} row by row; null where a canvas is drawn */
    this.cells = null;
    /** @type {any} */
    this.canvas = null;
    this.caption.append(this.title, " ", this.shape);
    this.frame = make("div", "frame");
    this.frame.tabIndex = 0;
    this.tip = make("div", "tip");
    this.tip.popover = "manual";
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.root.append(this.caption, this.frame, this.tip, this.live);
    parent.append(this.root);
    this.listen();
  }

  // -- settings from Python ------------------------------------------------------------------------

  update(data, emit) {
    [this.data, this.emit] = [data, emit];
    const { names, shown, texts, slanted } = data;
    const form = JSON.stringify([names.map((axis) => axis.length), shown.map(Boolean), !texts, slanted]);
    if (form !== this.form) this.build(form);
    this.draw();
    if (this.at) this.point(this.at); // the cell under the pointer may have changed
  }

  build(form) {
    this.form = form;
    this.leave();
    Object.assign(this, matrixTable(this.data));
    this.headers = ["row", "col"].map((scope) => [...this.table.querySelectorAll(`th[scope=${scope}] bdi`)]);
    this.mark = make("div", "marks");
    this.frame.replaceChildren(this.table);
    this.canvas?.after(this.mark);
  }

  draw() {
    const { title, shape, cell, shown, names } = this.data;
    this.theme = themeOf(this.root);
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
    this.root.style.setProperty("--wide", `${cell[0] / 16}rem`);
    this.root.style.setProperty("--high", `${cell[1] / 16}rem`);
    this.root.classList.toggle("clickable", Boolean(this.emit));
    [this.title.textContent, this.shape.textContent] = [title, shape];
    this.frame.setAttribute("aria-label", `${title}: a matrix of ${names[0].length} rows and ` +
      `${names[1].length} columns. Arrow keys go through it.`);
    this.headers.forEach((headers, axis) => headers.forEach((header, i) => {
      write(header, shown[axis][i]);
    }));
    if (this.cells) this.drawCells();
    else this.drawPixels();
  }

  drawCells() {
    const { numbers, texts, marked, names } = this.data;
    const framed = new Set(marked.map(([row, column]) => row * names[1].length + column));
    this.cells.forEach((cell, index) => {
      const colour = numberColour(this.data, this.theme, numbers[index]);
      write(cell, texts[index]);
      cell.style.background = colour ? `rgb(${colour})` : "";
      cell.style.color = colour ? inkOn(colour) : "";
      cell.classList.toggle("marked", framed.has(index));
    });
  }

  drawPixels() {
    const { marked, names, cell } = this.data;
    const [rows, columns] = names.map((axis) => axis.length);
    paintPixels(this.canvas, this.data, this.theme);
    this.canvas.setAttribute("aria-label", this.frame.getAttribute("aria-label"));
    this.canvas.style.width = `${(columns * cell[0]) / 16}rem`;
    this.canvas.style.aspectRatio = `${columns * cell[0]} / ${rows * cell[1]}`;
    this.mark.replaceChildren(...marked.map(([row, column]) => {
      const box = make("i");
      box.style.inset = `${(100 * row) / rows}% ${100 - (100 * (column + 1)) / columns}% ` +
        `${100 - (100 * (row + 1)) / rows}% ${(100 * column) / columns}%`;
      return box;
    }));
  }

  // -- one cell -----------------------------------------------------------------------------------

  /**
   * Show the number of a [row, column] beside it, and return the lines.
   * @param {number[]} cell
   * @returns {string[]}
   */
  point(cell) {
    const { title, names, numbers, note, said: spokenNumbers } = this.data;
    const [row, column] = cell;
    const number = (spokenNumbers ?? numbers)[row * names[1].length + column];
    if (number === undefined) {
      this.leave();
      return [];
    }
    const [of, to] = [names[0][row], names[1][column]];
    const lines = [`${title} · ${of} · ${to}`, [number].flat().map((value) => formatNumber(value)).join(", ")];
    if (note) lines.push(note.replaceAll(/\{(row|column)\}/g, (_, axis) => (axis === "row" ? of : to)));
    this.at = cell;
    this.tip.replaceChildren(...lines.map((line, i) => make(i === 1 ? "b" : "div", "", line)));
    if (!this.tip.matches(":popover-open")) this.tip.showPopover();
    const box = this.box(cell);
    if (box.bottom < 0 || box.top > innerHeight) this.leave(); // scrolled away
    const left = box.left + box.width / 2 - this.tip.offsetWidth / 2;
    const above = box.top - this.tip.offsetHeight - 8;
    this.tip.style.left = `${Math.max(4, Math.min(left, innerWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${above > 0 ? above : box.bottom + 8}px`;
    return lines;
  }

  leave() {
    this.at = null;
    if (this.tip.matches(":popover-open")) this.tip.hidePopover();
  }

  /**
   * The box of a [row, column] in the window.
   * @param {number[]} cell
   */
  box([row, column]) {
    const [rows, columns] = this.data.names.map((axis) => axis.length);
    if (this.cells) return this.cells[row * columns + column].getBoundingClientRect();
    const all = this.canvas.getBoundingClientRect();
    const [width, height] = [all.width / columns, all.height / rows];
    return new DOMRect(all.left + column * width, all.top + row * height, width, height);
  }

  /** The [row, column] of an event, or null beside the cells. */
  cellAt(event) {
    const [rows, columns] = this.data.names.map((axis) => axis.length);
    if (this.cells) {
      const index = this.cells.indexOf(event.target);
      return index < 0 ? null : [Math.floor(index / columns), index % columns];
    }
    const all = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - all.top) / all.height) * rows);
    const column = Math.floor(((event.clientX - all.left) / all.width) * columns);
    return row < 0 || column < 0 || row >= rows || column >= columns ? null : [row, column];
  }

  // -- pointer and keys ---------------------------------------------------------------------------

  listen() {
    const { frame } = this;
    const move = (event) => {
      const cell = this.cellAt(event);
      if (!cell) this.leave();
      else if (cell.join() !== this.at?.join()) this.point(cell);
    };
    frame.addEventListener("pointermove", move);
    frame.addEventListener("pointerdown", move); // a finger only touches
    frame.addEventListener("pointerleave", (event) => event.pointerType === "touch" || this.leave());
    frame.addEventListener("click", (event) => {
      const cell = this.cellAt(event);
      if (cell) this.choose(cell);
    });
    frame.addEventListener("keydown", (event) => this.key(event));
    frame.addEventListener("blur", () => this.leave());
    this.elsewhere = (event) => this.at && !event.composedPath().includes(frame) && this.leave();
    document.addEventListener("pointerdown", this.elsewhere, true);
    this.follow = () => this.at && this.point(this.at);
    document.addEventListener("scroll", this.follow, true);
  }

  key(event) {
    const step = STEPS[event.key];
    if (event.key === "Escape") this.leave();
    else if (this.at && (event.key === "Enter" || event.key === " ")) this.choose(this.at);
    else if (!step) return;
    else this.walk(step);
    event.preventDefault();
  }

  walk(step) {
    const sizes = this.data.names.map((axis) => axis.length);
    const from = this.at ?? step.map((by) => -Math.max(by, 0));
    const cell = sizes.map((size, axis) => Math.min(Math.max(from[axis] + step[axis], 0), size - 1));
    this.cells?.[cell[0] * sizes[1] + cell[1]].scrollIntoView({ block: "nearest", inline: "nearest" });
    this.live.textContent = this.point(cell).join(", ");
  }

  /** @param {number[]} cell */
  choose([row, column]) {
    this.emit?.([row, column], this.data.names.map((axis) => axis.length));
  }

  close() {
    document.removeEventListener("pointerdown", this.elsewhere, true);
    document.removeEventListener("scroll", this.follow, true);
    this.root.remove();
  }
}

/** A text that is there already is left alone: the browser would lay the page out again. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Several of them beside each other, as many in a line as there is room for, or as Python says. */
class NumberTables {
  constructor(parent) {
    this.root = make("div", "mha number-tables");
    this.views = [];
    parent.append(this.root);
  }

  update({ tables, across, clickable }, emit) {
    while (this.views.length > tables.length) this.views.pop().close();
    while (this.views.length < tables.length) this.views.push(new NumberTable(this.root));
    this.root.classList.toggle("aligned", Boolean(across));
    this.root.style.setProperty("--across", across || 1);
    this.views.forEach((view, number) => {
      const chosen = (at, of) => emit({ table: number, of, at });
      view.update(tables[number], clickable ? chosen : null);
    });
  }

  close() {
    for (const view of this.views) view.close();
  }
}

export default function numberTable({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "numberTables", () => new NumberTables(parentElement));
  view.update(data, (value) => setTriggerValue("cell", value));
  return endOf(parentElement, "numberTables");
}
