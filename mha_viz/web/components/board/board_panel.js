// @ts-check
// One head on a board: its name, source and note, its weights, and the weight that is pointed at.

import { cellAt } from "../workbench/heat_layout.js";
import { paintHeat, paintOver } from "../workbench/heat_paint.js";
import { formatCode, keyedCanvas, make } from "../shared/shared.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const BUTTONS = { left: ["◀", "Move left"], right: ["▶", "Move right"], heads: ["Open in Heads", "Open in Heads"], remove: ["✕", "Remove"] };

export class BoardPanel {
  /** @param {{ point: (cell: any) => void, pin: (cell: any) => void, edit: (edit: any) => void, say: (text: string) => void }} out */
  constructor(out) {
    this.out = out;
    /** Of the payload. @type {any} */
    this.panel = null;
    /** State shared by all panels. @type {any} */
    this.board = null;
    /** A byte a cell. @type {Uint8Array} */
    this.codes = new Uint8Array();
    this.root = make("section", "panel");
    this.title = make("h2", "name");
    this.source = make("div", "source");
    this.labels = make("div", "labels");
    this.problem = make("p", "problem");
    this.stage = make("div", "stage");
    this.cells = make("canvas", "cells");
    this.over = keyedCanvas("over", "heatmap");
    this.weight = make("div", "weight");
    this.stage.append(this.cells, this.over);
    this.tools = make("div", "tools");
    this.note = Object.assign(make("input", "note"), { type: "text", maxLength: 200, placeholder: "Note" });
    this.note.addEventListener("change", () => out.edit({ action: "note", text: this.note.value }));
    this.buttons = Object.entries(BUTTONS).map(([action, [text, name]]) => {
      const button = Object.assign(make("button", `button ${action}`, text), { title: name });
      button.addEventListener("click", () => out.edit({ action }));
      return button;
    });
    const top = make("div", "top");
    top.append(this.title, this.tools);
    this.tools.append(...this.buttons);
    this.root.append(top, this.source, this.labels, this.problem, this.stage, this.weight, this.note);
    this.listen();
  }

  /**
   * @param {any} panel of the payload
   * @param {Uint8Array} codes of all its cells
   * @param {any} board layout, width, height, table, colours, font, labels, marked, actions
   */
  draw(panel, codes, board) {
    this.panel = panel;
    this.codes = codes;
    this.board = board;
    this.title.textContent = panel.name;
    this.source.textContent = `${panel.source} · “${panel.text}”`;
    this.source.title = this.source.textContent;
    this.labels.textContent = board.labels ?? "";
    this.problem.textContent = panel.problem;
    this.problem.hidden = !panel.problem;
    this.stage.hidden = this.weight.hidden = !panel.rows;
    this.drawTools();
    if (!panel.rows) return;
    const { layout, width, height, table, colours, font } = board;
    const { view } = layout;
    this.stage.style.width = `${width}px`;
    this.stage.style.height = `${height}px`;
    const part = { codes: partOf(codes, panel.cols, view), rows: view.rows, cols: view.cols, pooled: true };
    this.picture = { width, height, layout, part, header: panel, table, colours, font };
    paintHeat(this.cells, this.picture);
    this.clearGaps();
    this.over.setAttribute("aria-label", `Attention weights of ${panel.name} of ${panel.source}. Arrow keys move, Enter keeps a cell.`);
  }

  drawTools() {
    const { actions, names } = this.board;
    for (const button of this.buttons) {
      const action = button.classList[1];
      button.hidden = !actions.includes(action);
      button.setAttribute("aria-label", `${button.title}: ${names}`);
    }
    this.note.hidden = !actions.includes("note");
    this.note.setAttribute("aria-label", `Note on ${names}`);
    if (this.note.getRootNode().activeElement !== this.note) this.note.value = this.panel.note;
  }

  /** Leaves blank what this text has no token for. */
  clearGaps() {
    const { left, top, wide, high, cell, view } = this.board.layout;
    const context = this.cells.getContext("2d");
    for (let row = 0; row < view.rows; row++) {
      if (!this.panel.query_labels[view.top + row]) context.clearRect(left, top + row * cell - 0.5, wide, cell + 1);
    }
    for (let column = 0; column < view.cols; column++) {
      if (!this.panel.key_labels[view.left + column]) context.clearRect(left + column * cell - 0.5, top, cell + 1, high);
    }
  }

  /**
   * Draw the cells that are pointed at and pinned, and this head's weight there.
   * @param {{ row: number, column: number } | null} hover
   * @param {{ query: number, key: number }} pair
   */
  point(hover, pair) {
    if (!this.panel?.rows) return;
    paintOver(this.over, this.picture, hover, pair, null);
    this.frameMarks();
    const cell = hover ?? (pair.query >= 0 ? { row: pair.query, column: pair.key } : null);
    this.weight.textContent = cell ? this.inWords(cell) : "";
  }

  frameMarks() {
    const { left, top, cell, view } = this.board.layout;
    const context = this.over.getContext("2d");
    context.strokeStyle = this.board.colours.ink;
    context.lineWidth = 1.5;
    for (const [row, column] of this.board.marked ?? []) {
      const [x, y] = [column - view.left, row - view.top];
      if (x >= 0 && y >= 0 && x < view.cols && y < view.rows) context.strokeRect(left + x * cell, top + y * cell, cell, cell);
    }
  }

  /** @param {{ row: number, column: number }} cell */
  inWords({ row, column }) {
    if (row < 0 || column < 0) return "";
    const [query, key] = [this.panel.query_labels[row], this.panel.key_labels[column]];
    if (!query || !key) return "not in this sentence";
    const code = this.codes[row * this.panel.cols + column];
    const largest = this.board.pool > 1 ? ` (largest of ${this.board.pool} × ${this.board.pool})` : "";
    return `${query} → ${key}: ${formatCode(code)}${largest}`;
  }

  // -- pointer and keys -----------------------------------------------------------------------------

  listen() {
    const { over, out } = this;
    over.addEventListener("pointermove", (event) => out.point(this.at(event)));
    over.addEventListener("pointerleave", () => out.point(null));
    over.addEventListener("blur", () => out.point(null));
    over.addEventListener("click", (event) => {
      const cell = this.at(event);
      if (cell) out.pin(cell);
    });
    over.addEventListener("keydown", (event) => this.key(event));
  }

  /** The cell at a pointer; null beside all of them. */
  at(event) {
    if (!this.panel?.rows) return null;
    const box = this.over.getBoundingClientRect();
    const { row, column, inside } = cellAt(this.board.layout, event.clientX - box.left, event.clientY - box.top);
    return inside ? { row, column } : null;
  }

  key(event) {
    if (!this.panel?.rows || event.altKey || event.metaKey || event.ctrlKey) return;
    const { view } = this.board.layout;
    const at = this.board.hover ?? { row: view.top, column: view.left };
    const step = STEPS[event.key];
    if (step) {
      const row = Math.min(Math.max(at.row + step[0], view.top), view.top + view.rows - 1);
      const column = Math.min(Math.max(at.column + step[1], view.left), view.left + view.cols - 1);
      this.out.point({ row, column });
      this.out.say(this.inWords({ row, column }));
    } else if (event.key === "Enter" || event.key === " ") this.out.pin(at);
    else if (event.key === "Escape") this.out.pin(null);
    else return;
    event.preventDefault();
  }
}

/** The codes of a part of all cells, row by row. */
function partOf(codes, columns, { top, left, rows, cols }) {
  const part = new Uint8Array(rows * cols);
  for (let row = 0; row < rows; row++) {
    const start = (top + row) * columns + left;
    part.set(codes.subarray(start, start + cols), row * cols);
  }
  return part;
}
