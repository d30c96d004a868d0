// @ts-check
// What the head switches are made of: their cells, their colours, the legend. Nothing here remembers.

import { layoutOf } from "../head_grid/grid_layout.js";
import { formatNumber, layerName, make } from "../shared/shared.js";

export const NAMES = 28; // width of the layers' names
const SMALLEST = 27; // of a tile with the gap beside it: a finger needs 26 pixels
const WITHOUT = 44; // at most, of one without a pattern
const READABLE = 40; // of one that has room for letters
const TALL = 1e4; // of a window whose height does not matter

/**
 * Side of a tile with the gap around it, as large as in the grid of Heads, and this gap.
 * @param {number} width of all that there is room for
 * @param {number} layers
 * @param {number} heads
 * @param {boolean} drawn whether each tile holds its head's pattern and label
 * @param {number} [height] that all layers should fit into
 */
export function tileSizes(width, layers, heads, drawn, height = TALL) {
  const { pitchX, gap } = layoutOf({ layers, heads, rows: 1, cols: 1 }, 0, width, height);
  const pitch = Math.max(drawn ? pitchX : Math.min(pitchX, WITHOUT), SMALLEST);
  return { pitch, gap: Math.min(gap, pitch - SMALLEST + 1), readable: pitch >= READABLE };
}

/** Where the patterns lie in tiles of these sizes, as the painter of the head grid wants it. */
export function patternLayout({ pitch, gap }, layers, heads) {
  const inset = gap / 2 + 1; // a tile's border is one pixel wide
  const side = pitch - 2 * inset;
  return {
    width: heads * pitch,
    height: layers * pitch,
    tileWidth: side,
    tileHeight: side,
    tileAt: (index) =>
      ({ x: (index % heads) * pitch + inset, y: Math.floor(index / heads) * pitch + inset }),
  };
}

/** A table of tiles with a name for each row and column: { rows, tiles, columnNames, layerNames }. */
export function switchTable(settings) {
  const { layers, heads } = settings;
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
  const layerNames = [...Array(layers).keys()].map((row) => item("name layer", "button", row, -1, layerName(settings, row)));
  const body = layerNames.map((name, row) => {
    const own = columns.map((head) => item("tile", "switch", row, head));
    for (const tile of own) tile.append(make("span", "badge"));
    tiles.push(...own);
    return line(cell("rowheader", name), ...own.map((tile) => cell("gridcell", tile)));
  });
  const top = line(make("div", "corner"), ...columnNames.map((name) => cell("columnheader", name)));
  return { rows: [top, ...body], tiles, columnNames, layerNames };
}

/**
 * What stands in a tile of its head's labels: the first, in few letters, and how many more there are.
 * @param {{ labels: string[][], badges: string[] }} notes
 * @param {number} index of the head
 */
export function badgeText({ labels, badges }, index) {
  const more = labels[index].length - 1;
  return more > 0 ? `${badges[index]} +${more}` : badges[index];
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
