// @ts-check
// The layout of a flow graph's nodes, names and lines, and the item at a point. Knows sizes only.

import { BIAS, MLP, SOURCE } from "./flow_model.js";

const LAYER_NAMES_WIDTH = 34; // pixels left of the tokens, for the layers' names
const TOP_HEIGHT = 40; // for the chosen token's name
const BOTTOM_HEIGHT = 84; // for the names of all tokens
const MIN_COLUMN = 26;
const MAX_COLUMN = 150;
const MAX_FOLDED_COLUMN = 460; // the widest column, of all tokens together
const POINTER_REACH = 7; // pixels from a point to what is meant
const LETTER_WIDTH = 7; // pixels of a letter of a name
const MAX_NAME_LETTERS = 12;
export const NAME_BASELINE = 14; // from a node down to the baseline of its name
const ASIDE = 15; // from a position to its MLP, or its biases
const HEAD_ROW = 28; // from one row of heads to the next
const MAX_HEAD_ROWS = 3; // of heads, in a column as narrow as it may be
const MAX_SCREENS = 5; // that a picture with names may be wide, where it is scrolled
const EMPTY_LEVEL = 22; // between positions with nothing below

/** A straight line that belongs to a part, or to a node (row -1). @typedef {{ row: number, node: number, kind: number, x0: number, y0: number, x1: number, y1: number, flow: number, size: number }} Line */
/** kind: of a part, or 0 for a residual state; state: its number; size: as drawn, up to 1. @typedef {{ kind: number, state: number, head: number, rows: number[], x: number, y: number, flow: number, size: number, label?: string }} Node */
/** @typedef {import("./flow_model.js").FlowModel} Model */
/** @typedef {import("./flow_model.js").Subgraph} Subgraph */

/** @param {string} label */
export function cutName(label) {
  const letters = [...label];
  return letters.length > MAX_NAME_LETTERS ? `${letters.slice(0, MAX_NAME_LETTERS - 1).join("")}…` : label;
}

/** @param {string} name how many pixels wide it is, and the room beside it */
const widthOf = (name) => LETTER_WIDTH * [...cutName(name)].length + 9;

/** @type {(numbers: number[]) => number} */
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/**
 * Widths of columns and heights of layers: nodes have names where these fit, and layers
 * are as high as the names below their positions.
 * @param {number} width that there is, in CSS pixels
 * @param {Model} model
 * @param {Subgraph} subgraph
 */
export function flowLayout(width, model, subgraph) {
  const { labels, folded = false, signed } = model.header;
  const sums = innerNodes(model, subgraph);
  const room = width - LAYER_NAMES_WIDTH - 8;
  const least = leastColumns(model, sums);
  const isNamed = folded || sumOf(least) <= room * (signed ? MAX_SCREENS : 1);
  const columns = isNamed ? namedColumns(room, least, folded) : plainColumns(room, labels.length);
  const rows = new Map([...sums].map(([state, nodes]) => [state, rowsOf(nodes, columns[state % labels.length], isNamed, folded)]));
  const levels = levelsOf(model, sums, rows, isNamed);
  const edges = columns.reduce((ends, column) => [...ends, ends[ends.length - 1] + column], [LAYER_NAMES_WIDTH]);
  const bottom = levels[0];
  return {
    folded, isNamed, columns, sums, rows, bottom, high: bottom + BOTTOM_HEIGHT, gutter: LAYER_NAMES_WIDTH,
    wide: Math.max(width, Math.ceil(edges[edges.length - 1] + 8)),
    x: (/** @type {number} */ token) => edges[token] + columns[token] / 2,
    y: (/** @type {number} */ level) => levels[level],
  };
}

/** The least width of each column in which the names of its nodes stand beside each other. */
function leastColumns(model, sums) {
  const least = model.header.labels.map(() => MIN_COLUMN);
  for (const [state, nodes] of sums) {
    const token = state % model.tokens;
    const names = nodes.filter(({ kind }) => kind === SOURCE).map(({ label }) => widthOf(label));
    const heads = Math.max(0, ...names, sumOf(names) / MAX_HEAD_ROWS) + 8;
    const asideWidth = nodes.length > names.length ? 2 * ASIDE + widthOf("MLP") : 0;
    least[token] = Math.max(least[token], heads, asideWidth);
  }
  return least;
}

/** @type {(room: number, least: number[], folded: boolean) => number[]} */
function namedColumns(room, least, folded) {
  if (folded) return [Math.min(MAX_FOLDED_COLUMN, room)];
  const spare = Math.max(0, room - sumOf(least)) / least.length;
  return least.map((column) => Math.max(column, Math.min(MAX_COLUMN, column + spare)));
}

/** @type {(room: number, tokens: number) => number[]} */
function plainColumns(room, tokens) {
  return new Array(tokens).fill(Math.min(90, Math.max(MIN_COLUMN, room / tokens)));
}

/** The heads of one sum in rows below it, as many in each as there is room for. */
function rowsOf(nodes, column, isNamed, folded) {
  const heads = nodes.filter(({ kind }) => kind === SOURCE).sort((first, second) => first.head - second.head);
  if (!isNamed) return heads.length ? [heads] : [];
  const room = folded ? column - 2 * (ASIDE + widthOf("MLP")) : column - 4;
  const rows = [];
  let usedWidth = Infinity;
  for (const head of heads) {
    const width = widthOf(head.label);
    if (usedWidth + width > room) {
      rows.push([]);
      usedWidth = 0;
    }
    rows[rows.length - 1].push(head);
    usedWidth += width;
  }
  return rows;
}

/** Pixels from a state down to the first row of its heads, which is below its MLP and biases. */
function firstRow(nodes) {
  if (nodes.some(({ kind }) => kind === MLP)) return 48;
  return nodes.some(({ kind }) => kind === BIAS) ? 38 : 22;
}

/** The height of every level, from the input at the bottom to the top. */
function levelsOf(model, sums, rows, isNamed) {
  const { layers } = model.header;
  const rise = Math.min(86, Math.max(48, 560 / layers));
  const levels = new Array(model.top + 1).fill(TOP_HEIGHT);
  for (let level = model.top - 1; level >= 0; level--) {
    const above = [...sums].filter(([state]) => Math.floor(state / model.tokens) === level + 1);
    const depths = above.map(([state, nodes]) => {
      const deep = rows.get(state).length;
      return deep ? firstRow(nodes) + NAME_BASELINE + HEAD_ROW * (deep - 1) + 14 : firstRow(nodes) + 4;
    });
    // A sum of attention lies halfway and a little more to the next layer.
    const plain = (level % 2 ? 0.44 : 0.56) * rise;
    levels[level] = levels[level + 1] + (isNamed ? Math.max(EMPTY_LEVEL, ...depths) : plain);
  }
  return levels;
}

/**
 * Nodes and lines of a subgraph.
 * @param {Model} model
 * @param {Subgraph} subgraph
 * @param {ReturnType<typeof flowLayout>} layout
 * @returns {{ nodes: Node[], lines: Line[] }}
 */
export function flowItems(model, subgraph, layout) {
  const nodes = [];
  const lines = [];
  subgraph.reached.forEach((reached, state) => {
    if (!reached) return;
    const { x, y } = pointOf(model, layout, state);
    nodes.push({ kind: 0, state, head: -1, rows: [], x, y, flow: subgraph.through[state], size: 0 });
  });
  const byRow = new Map();
  for (const node of placedNodes(model, layout)) {
    const to = pointOf(model, layout, node.state);
    lines.push({ row: -1, node: nodes.length, kind: node.kind, x0: node.x, y0: node.y, x1: to.x, y1: to.y, flow: node.flow, size: 0 });
    nodes.push(node);
    for (const row of node.rows) byRow.set(row, node);
  }
  for (const row of subgraph.rows) {
    const source = model.sourceOf(row);
    if (source < 0) continue;
    const from = pointOf(model, layout, source);
    const to = byRow.get(row) ?? pointOf(model, layout, model.targetOf(row));
    const flow = subgraph.flow[row];
    lines.push({ row, node: -1, kind: model.kind[row], x0: from.x, y0: from.y, x1: to.x, y1: to.y, flow, size: 0 });
  }
  const { largest } = model;
  for (const item of [...nodes, ...lines]) item.size = Math.min(1, Math.abs(item.flow) / largest);
  return { nodes, lines };
}

/** The point of a residual state. */
function pointOf(model, layout, state) {
  return { x: layout.x(state % model.tokens), y: layout.y(Math.floor(state / model.tokens)) };
}

/** The heads, MLPs and biases that write to each residual state. */
function innerNodes(model, subgraph) {
  /** @type {Map<number, any[]>} */
  const sums = new Map();
  const names = { [MLP]: "MLP", [BIAS]: "biases" };
  for (const row of subgraph.rows) {
    const kind = model.kind[row];
    if (!kind) continue;
    const state = model.targetOf(row);
    const head = kind === SOURCE ? model.head[row] : -1;
    if (!sums.has(state)) sums.set(state, []);
    let node = sums.get(state).find((inner) => inner.kind === kind && inner.head === head);
    if (!node) {
      const label = kind === SOURCE ? model.headOf(row) : names[kind];
      node = { kind, state, head, rows: [], flow: 0, size: 0, label };
      sums.get(state).push(node);
    }
    node.rows.push(row);
    node.flow += subgraph.flow[row];
  }
  return sums;
}

/** The same with their points: heads side by side under their state, MLPs and biases beside it. */
function placedNodes(model, layout) {
  const placed = [];
  for (const [state, nodes] of layout.sums) {
    const { x, y } = pointOf(model, layout, state);
    const column = layout.columns[state % model.tokens];
    const aside = layout.folded ? column / 2 - 26 : layout.isNamed ? ASIDE : Math.min(11, 0.3 * column);
    for (const node of nodes) {
      if (node.kind === MLP) placed.push({ ...node, x: x + aside, y: y + 17 });
      if (node.kind === BIAS) placed.push({ ...node, x: x - aside, y: y + 9 });
    }
    layout.rows.get(state).forEach((row, down) => {
      const steps = row.map(({ label }) => (layout.isNamed ? widthOf(label) : Math.min(9, (column - 6) / row.length)));
      let left = x - sumOf(steps) / 2;
      row.forEach((node, at) => {
        placed.push({ ...node, x: left + steps[at] / 2, y: y + (layout.isNamed ? firstRow(nodes) + HEAD_ROW * down : 20) });
        left += steps[at];
      });
    });
  }
  return layout.isNamed ? placed : placed.map((node) => ({ ...node, label: "" }));
}

/**
 * The node or else the line at a point, by their numbers; null where there is none.
 * @param {{ nodes: Node[], lines: Line[] }} items
 * @param {number} x
 * @param {number} y
 * @returns {{ node: number } | { line: number } | null}
 */
export function itemAt({ nodes, lines }, x, y) {
  const nearest = (list, far) => {
    let [best, at] = [POINTER_REACH, -1];
    list.forEach((item, number) => {
      const distance = far(item);
      if (distance < best) [best, at] = [distance, number];
    });
    return at;
  };
  const node = nearest(nodes, (candidate) => Math.min(Math.hypot(candidate.x - x, candidate.y - y), fromName(candidate, x, y)));
  if (node >= 0) return { node };
  const line = nearest(lines, (candidate) => fromLine(candidate, x, y));
  return line < 0 ? null : { line };
}

/** The distance from a point to the name of a node, plus 1: between both the node is nearer. */
function fromName({ label, x: middle, y: above }, x, y) {
  if (!label) return Infinity;
  const aside = Math.max(0, Math.abs(x - middle) - (widthOf(label) - 9) / 2);
  return 1 + Math.hypot(aside, Math.max(0, Math.abs(y - above - NAME_BASELINE + 4) - 5));
}

/** The distance from a point to a line. */
function fromLine({ x0, y0, x1, y1 }, x, y) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const along = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x0 + along * dx - x, y0 + along * dy - y);
}
