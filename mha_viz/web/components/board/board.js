// @ts-check
// A board: several heads beside each other, with cells of one size on one axis of tokens. What is
// pointed at in one of them is pointed at in all.

import { boardLayout, shownOf } from "./board_layout.js";
import { BoardPanel } from "./board_panel.js";
import { setPending } from "../shared/readiness.js";
import { payloadStore } from "../shared/payload_store.js";
import { colourAt, colourTable, endOf, make, roomBelow, scaleWeight, themeOf, viewOf } from "../shared/shared.js";
/* global PALETTE */

const NO_PAIR = { query: -1, key: -1 };
const [PANEL_HEADER, PANEL_FOOTER] = [70, 80]; // pixels of a panel's name, and of what stands below its picture
const LEGEND_COLOURS = 16; // colours of the legend

class Board {
  constructor(parent) {
    this.root = make("div", "mha board");
    this.verdict = make("p", "verdict");
    this.verdict.setAttribute("role", "status");
    this.legend = make("div", "legend");
    this.bar = make("span", "bar");
    this.masked = make("span", "masked", "masked");
    this.legend.append("Attention weight 0", this.bar, "1", this.masked);
    this.message = make("div", "message");
    this.grid = make("div", "panels");
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    const top = make("div", "above");
    top.append(this.verdict, this.legend);
    this.root.append(top, this.message, this.grid, this.live);
    parent.append(this.root);
    /** @type {BoardPanel[]} */
    this.panels = [];
    /** @type {any} */
    this.data = {};
    this.hover = null;
    this.pair = NO_PAIR;
    this.listen();
  }

  update(data, emit) {
    this.data = data;
    this.emit = emit;
    this.draw();
  }

  draw() {
    const { data } = this;
    const payload = payloadStore().byId.get(data.payload) ?? (this.payload?.header.id === data.payload ? this.payload : null);
    const isReady = Boolean(data.error || payload);
    setPending(`board ${data.name}`, !isReady);
    this.message.textContent = data.error ?? (payload || this.payload ? "" : "Drawing …");
    this.message.hidden = !this.message.textContent;
    if (!payload) return;
    if (this.payload?.header !== payload.header) {
      this.hover = null;
      this.pair = NO_PAIR;
    }
    this.payload = payload;
    this.notes = payloadStore().byId.get(`${data.payload} notes`)?.header ?? (this.notes?.id === `${data.payload} notes` ? this.notes : null);
    this.drawPanels();
  }

  drawPanels() {
    const width = this.grid.clientWidth;
    if (width < 40) return;
    const { header, body } = this.payload;
    const drawn = header.panels.filter((panel) => panel.rows);
    const theme = themeOf(this.root);
    const style = getComputedStyle(this.root);
    this.drawTop(drawn, theme);
    while (this.panels.length > header.panels.length) this.panels.pop().root.remove();
    const size = { rows: 1, cols: 1, ...drawn[0] };
    const room = (roomBelow(this.grid, PANEL_FOOTER) ?? width) - PANEL_HEADER;
    const board = boardLayout({ width, room }, header.panels, shownOf(size, header.pool > 1 ? [] : this.data.window));
    const colours = {
      ink: style.color, paper: style.getPropertyValue("--st-background-color").trim() || "#ffffff",
      muted: PALETTE.muted[theme], accent: PALETTE.accent[theme],
    };
    this.grid.style.gridTemplateColumns = `repeat(${board.columns}, minmax(0, 1fr))`;
    let start = 0;
    header.panels.forEach((panel, at) => {
      const view = (this.panels[at] ??= this.newPanel(at));
      const end = start + (panel.rows ?? 0) * (panel.cols ?? 0);
      view.draw(panel, body.subarray(start, end), {
        ...board, table: colourTable(this.data.scale, theme), colours, font: style.fontFamily || "sans-serif", pool: header.pool,
        names: panel.name, labels: this.notes?.labels[at], marked: this.notes?.marked[at], actions: this.data.actions?.[at] ?? [], hover: this.hover,
      });
      start = end;
    });
    this.point(this.hover);
    this.root.dataset.cell = board.layout.cell.toFixed(2);
    this.root.dataset.painted = String(drawn.length);
  }

  drawTop(drawn, theme) {
    this.verdict.textContent = this.notes?.verdict ?? this.data.waiting ?? "";
    this.verdict.hidden = !this.data.waiting;
    const colours = Array.from({ length: LEGEND_COLOURS }, (_, at) => colourAt(scaleWeight(at / (LEGEND_COLOURS - 1), this.data.scale), PALETTE.sequential[theme]));
    this.bar.style.background = `linear-gradient(90deg, ${colours.map((colour) => `rgb(${colour})`).join(", ")})`;
    this.masked.style.setProperty("--masked", PALETTE.missing[theme]);
    this.masked.hidden = !drawn.some((panel) => panel.masked);
  }

  newPanel(at) {
    const panel = new BoardPanel({
      point: (cell) => this.point(cell),
      pin: (cell) => this.pin(cell),
      edit: (edit) => this.emit({ of: this.data.payload, panel: at, ...edit }),
      say: (text) => (this.live.textContent = text),
    });
    this.grid.append(panel.root);
    return panel;
  }

  /** @param {{ row: number, column: number } | null} cell */
  point(cell) {
    this.hover = cell;
    for (const panel of this.panels) {
      if (panel.board) panel.board.hover = cell;
      panel.point(cell, this.pair);
    }
  }

  /** Keeps a cell in all panels; a second time, or without one, none is kept. */
  pin(cell) {
    const isSame = !cell || (cell.row === this.pair.query && cell.column === this.pair.key);
    this.pair = isSame ? NO_PAIR : { query: cell.row, key: cell.column };
    this.point(this.hover);
  }

  listen() {
    this.redraw = () => this.payload && this.drawPanels();
    this.arrived = (id) => this.data.payload && id.startsWith(this.data.payload) && this.draw();
    payloadStore().listeners.add(this.arrived);
    this.schemes = matchMedia("(prefers-color-scheme: dark)");
    this.schemes.addEventListener("change", this.redraw);
    this.resized = new ResizeObserver(this.redraw);
    this.resized.observe(this.grid);
  }

  close() {
    setPending(`board ${this.data.name}`, false);
    payloadStore().listeners.delete(this.arrived);
    this.schemes.removeEventListener("change", this.redraw);
    this.resized.disconnect();
  }
}

export default function board({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "board", () => new Board(parentElement));
  view.update(data, (edit) => setTriggerValue("edit", edit));
  return endOf(parentElement, "board");
}
