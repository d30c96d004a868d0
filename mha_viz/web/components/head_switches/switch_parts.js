// @ts-check
// What the head switches are made of: their cells, their colours, the legend. Nothing here remembers.

import { formatNumber, make } from "../shared/shared.js";

export const NAMES = 28; // width of the layers' names
const SMALLEST = 27, LARGEST = 44; // of a tile with the gap beside it
const NARROWEST = 40, WIDEST = 104, LOWEST = 50; // of one with its head's pattern in it
const HEIGHT = 440; // of all tiles together, where that leaves room for patterns
export const STRIP = 17; // height of the label below a pattern, and of the value's line

/**
 * Width and height of a tile with the gaps around it, and these gaps.
 * @param {number} width of all that there is room for
 * @param {number} layers
 * @param {number} heads
 * @param {boolean} drawn whether each tile holds its head's pattern and label
 */
export function tileSizes(width, layers, heads, drawn) {
  const within = (size, least, most) => Math.max(Math.min(size, most), least);
  const room = Math.floor((width - NAMES) / heads);
  if (!drawn) {
    const pitch = within(room, SMALLEST, LARGEST);
    return { across: pitch, down: pitch, gap: within(pitch - 26, 1, 4) };
  }
  const across = within(room, NARROWEST, WIDEST);
  return { across, down: within(Math.floor(HEIGHT / layers), LOWEST, across + STRIP), gap: 5 };
}

/** Where the patterns lie in tiles of these sizes, as the painter of the head grid wants it. */
export function patternLayout({ across, down, gap }, layers, heads) {
  const inset = gap / 2 + 1; // a tile's border is one pixel wide
  return {
    width: heads * across,
    height: layers * down,
    tileWidth: across - 2 * inset,
    tileHeight: down - 2 * inset - STRIP,
    tileAt: (index) =>
      ({ x: (index % heads) * across + inset, y: Math.floor(index / heads) * down + inset }),
  };
}

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
    for (const tile of own) tile.append(make("span", "badge"));
    tiles.push(...own);
    return line(cell("rowheader", name), ...own.map((tile) => cell("gridcell", tile)));
  });
  const top = line(make("div", "corner"), ...columnNames.map((name) => cell("columnheader", name)));
  return { rows: [top, ...body], tiles, columnNames, layerNames };
}

/**
 * What stands in a tile of a head's labels: the first, in few letters where it has such a form, and
 * how many more there are.
 * @param {string[]} labels
 * @param {Record<string, string>} [badges] label -> few letters
 */
export function badgeText([first = "", ...more], badges = {}) {
  const short = badges[first] ?? first;
  return more.length ? `${short} +${more.length}` : short;
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
