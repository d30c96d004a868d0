// The workbench as the Heads page has it, and a Python that listens and says what a test has it say.

import assert from "node:assert/strict";

import { putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import workbench from "../../../mha_viz/web/components/workbench/workbench.js";
import { paintedOn } from "./canvas.js";
import { click, mounted } from "./dom.js";
import { bytesIn, python, weightsIn } from "./python.js";

export const [N, HEADS, COUNT] = [11, 5, 15]; // tokens, heads of a layer, all heads
const weights = weightsIn(python.heads.exact);
/** @type {(head: number, query: number, key: number) => number} */
export const weight = (head, query, key) => weights[(head * N + query) * N + key];
export const rowOf = (head, query) => Array.from({ length: N }, (_, key) => weight(head, query, key));
export const nameOf = (head) => `L${Math.floor(head / HEADS)} H${head % HEADS}`;
export const largest = (row) => row.indexOf(Math.max(...row));

/**
 * Open the workbench.
 * @param {any} view what differs from the page's own View
 * @param {{ grid?: string, exact?: string[], more?: any }} weightsAndSettings the payload and heads' exact weights
 */
export function openBench(view = {}, { grid = python.heads.grid, exact = python.bench.exact, more = {} } = {}) {
  const bytes = bytesIn(grid);
  const { header } = unpack(bytes);
  const { settings } = python.bench;
  let settingsNow = { name: "bench", heard: null, payload: putPayload(bytes), ...settings, view: { ...settings.view, ...view }, ...more };
  const component = mounted(workbench);
  /** Update it with news from Python. */
  const say = (news = {}) => {
    settingsNow = { ...settingsNow, ...news };
    component.update(settingsNow);
  };
  say();
  const { layer, head } = settingsNow.view;
  if (exact) putPayload(bytesIn(exact[layer * header.heads + head]));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const find = (selector) => document.querySelector(selector);
  /** The menu "View", open. */
  const opened = () => {
    if (find(".view-menu > .panel").hidden) find(".view-menu > .button").click();
    return { menus: all(".view-menu .menu"), checks: all(".view-menu .check") };
  };
  const page = {
    header, opened, say, all, find,
    text: (selector) => find(selector).textContent,
    texts: (selector) => all(selector).map((element) => element.textContent),
    word: (position) => all(".head-view .word")[position],
    button: (name) => all("button").find((button) => button.textContent === name),
    menu: (name) => opened().menus.find((menu) => menu.textContent.startsWith(name)).querySelector("select"),
    box: (name) => opened().checks.find((check) => check.textContent === name).querySelector("input"),
    /** The views that were sent to Python, in order. */
    views: () => component.messages.map(([name, { view }]) => (assert.equal(name, "view"), view)),
    /** The name of the last message. */
    last: () => component.messages.at(-1)[1].id,
  };
  /** Where a cell of the heatmap lies, from what was painted. */
  page.cell = (row, column, rows = header.rows, cols = header.cols) => {
    const [{ x, y, width, height }] = paintedOn(find(".heat-cells"), "image");
    return [x + ((column + 0.5) * width) / cols, y + ((row + 0.5) * height) / rows];
  };
  /** The middle of a tile of the grid. */
  page.tile = (index) => {
    const { x, y, width, height } = paintedOn(find(".cells"), "image")[index];
    return [x + width / 2, y + height / 2];
  };
  page.clickHead = (index) => click(find(".head-grid .stage"), ...page.tile(index));
  return page;
}
