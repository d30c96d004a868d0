// @ts-check
// What the head switches are made of: their cells, their colours, the legend. Nothing here remembers.

import { formatNumber, make } from "./shared.js";

export const NAMES = 28; // width of the layers' names

/** A table of tiles with a name for each row and column: { rows, tiles, columnNames, layerNames }. */
export function switchTable(layers, heads) {
  const line = (...children) => {
    const row = make("div", "line");
    row.setAttribute("role", "row");
    row.append(...children);
    return row;
  };
  const cell = (role, child) => {
    const around = make("div", "cell");
    around.setAttribute("role", role);
    around.append(child);
    return around;
  };
  const item = (name, role, row, column, text) => {
    const element = make("div", name, text);
    element.setAttribute("role", role);
    element.tabIndex = -1;
    [element.mhaRow, element.mhaColumn] = [row, column];
    return element;
  };
  const columns = [...Array(heads).keys()];
  const tiles = [];
  const columnNames = columns.map((head) => item("name head", "button", -1, head, `H${head}`));
  const layerNames = [...Array(layers).keys()].map((row) => item("name layer", "button", row, -1, `L${row}`));
  const body = layerNames.map((name, row) => {
    const own = columns.map((head) => item("tile", "switch", row, head));
    tiles.push(...own);
    return line(cell("rowheader", name), ...own.map((tile) => cell("gridcell", tile)));
  });
  const top = line(make("div", "corner"), ...columnNames.map((name) => cell("columnheader", name)));
  return { rows: [top, ...body], tiles, columnNames, layerNames };
}

/**
 * The colour of a number on the scale of `value`.
 * @param {any} value
 * @param {"light" | "dark"} theme
 * @param {number | null} number
 * @returns {string}
 */
export function tileColour(value, theme, number) {
  if (number === null) return value.missing[theme];
  const stops = value[theme];
  const place = ((number - value.low) / (value.high - value.low)) * (stops.length - 1);
  const from = Math.min(Math.max(Math.floor(place), 0), stops.length - 2);
  const share = Math.min(Math.max(place - from, 0), 1);
  return `color-mix(in srgb, ${stops[from + 1]} ${100 * share}%, ${stops[from]})`;
}

/** The scale of `value`, if there is one, and samples of the states that a tile can be in. */
export function switchLegend(value, name, theme) {
  const sample = (state, text, colour) => {
    const around = make("span", "sample");
    const swatch = make("i", state);
    if (colour) swatch.style.setProperty("--tile", colour);
    around.append(swatch, text);
    return around;
  };
  const parts = [];
  if (value) {
    const scale = make("span", "scale");
    const ramp = make("span", "ramp");
    ramp.style.background = `linear-gradient(to right, ${value[theme].join(", ")})`;
    const [low, high] = [value.low, value.high].map((end) => make("span", "end", formatNumber(end)));
    scale.append(make("span", "value-name", name), low, ramp, high);
    parts.push(scale);
    if (value.numbers.includes(null)) {
      parts.push(sample("missing", "not defined", value.missing[theme]));
    }
  }
  const middle = value?.[theme][Math.floor(value[theme].length / 3)];
  return [...parts, sample("off", "off", middle)];
}

/**
 * Rows and columns of the tiles on a straight line, the first one left out: a fast pointer skips.
 * @param {number[]} from row and column
 * @param {number[]} to
 * @returns {number[][]}
 */
export function passed([fromRow, fromColumn], [row, column]) {
  const steps = Math.max(Math.abs(row - fromRow), Math.abs(column - fromColumn));
  const between = (from, to, step) => Math.round(from + ((to - from) * step) / steps);
  return [...Array(steps).keys()].map((step) =>
    [between(fromRow, row, step + 1), between(fromColumn, column, step + 1)]);
}
