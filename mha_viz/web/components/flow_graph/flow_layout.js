// @ts-check
// Where the nodes and lines of a flow graph lie, and what lies at a point. Knows sizes only.

import { BIAS, MLP, SOURCE } from "./flow_model.js";

const GUTTER = 34; // pixels left of the tokens, for the layers' names
const ABOVE = 40; // for the chosen token's name
const BELOW = 84; // for the names of all tokens
const LEAST_COLUMN = 26;
const FOLDED = 460; // the widest column, of all tokens together
const NEAR = 7; // pixels from a point to what is meant

/** A straight line that belongs to a part, or to a node (row -1). @typedef {{ row: number, node: number, kind: number, x0: number, y0: number, x1: number, y1: number, flow: number, size: number }} Line */
/** kind: of a part, or 0 for a residual position; size: as it is drawn, up to 1. @typedef {{ kind: number, place: number, head: number, rows: number[], x: number, y: number, flow: number, size: number, label?: string }} Node */

/**
 * How wide columns of tokens and how high layers are.
 * @param {number} width that there is, in CSS pixels
 * @param {{ layers: number, labels: string[], folded?: boolean }} header
 */
export function flowLayout(width, { layers, labels, folded = false }) {
  const column = Math.min(folded ? FOLDED : 90, Math.max(LEAST_COLUMN, (width - GUTTER - 8) / labels.length));
  const rise = Math.min(86, Math.max(folded ? 72 : 48, 560 / layers));
  const bottom = ABOVE + layers * rise;
  const wide = Math.max(width, Math.ceil(GUTTER + column * labels.length + 8));
  return {
    folded, column, rise, bottom, wide, high: bottom + BELOW, gutter: GUTTER,
    x: (/** @type {number} */ token) => GUTTER + (token + 0.5) * column,
    // A sum of attention lies halfway and a little more to the next layer.
    y: (/** @type {number} */ level) => bottom - (Math.floor(level / 2) + (level % 2 ? 0.56 : 0)) * rise,
  };
}

/**
 * Nodes and lines of what is kept.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {import("./flow_model.js").Kept} kept
 * @param {ReturnType<typeof flowLayout>} layout
 * @returns {{ nodes: Node[], lines: Line[] }}
 */
export function flowItems(model, kept, layout) {
  const nodes = [];
  const lines = [];
  kept.reached.forEach((reached, place) => {
    if (!reached) return;
    const { x, y } = placeAt(model, layout, place);
    nodes.push({ kind: 0, place, head: -1, rows: [], x, y, flow: kept.through[place], size: 0 });
  });
  const inner = innerNodes(model, kept, layout);
  for (const node of inner.values()) {
    const to = placeAt(model, layout, node.place);
    lines.push({ row: -1, node: nodes.length, kind: node.kind, x0: node.x, y0: node.y, x1: to.x, y1: to.y, flow: node.flow, size: 0 });
    nodes.push(node);
  }
  for (const row of kept.rows) {
    const source = model.sourceOf(row);
    if (source < 0) continue;
    const from = placeAt(model, layout, source);
    const to = inner.get(innerName(model, row)) ?? placeAt(model, layout, model.targetOf(row));
    const flow = kept.flow[row];
    lines.push({ row, node: -1, kind: model.kind[row], x0: from.x, y0: from.y, x1: to.x, y1: to.y, flow, size: 0 });
  }
  const { largest } = model;
  for (const item of [...nodes, ...lines]) item.size = Math.min(1, Math.abs(item.flow) / largest);
  return { nodes, lines };
}

/** The point of a residual position. */
function placeAt(model, layout, place) {
  return { x: layout.x(place % model.tokens), y: layout.y(Math.floor(place / model.tokens)) };
}

/** What a part passes on its way: a head, an MLP, or the biases where they come from. */
function innerName(model, row) {
  const kind = model.kind[row];
  return kind ? `${model.targetOf(row)} ${kind} ${kind === SOURCE ? model.head[row] : 0}` : "";
}

/** Heads, MLPs and biases by name; heads of one position lie side by side under it. */
function innerNodes(model, kept, layout) {
  const found = new Map();
  const heads = new Map();
  for (const row of kept.rows) {
    const name = innerName(model, row);
    if (!name) continue;
    const kind = model.kind[row];
    const place = model.targetOf(row);
    if (!found.has(name)) {
      const head = kind === SOURCE ? model.head[row] : -1;
      const { x, y } = placeAt(model, layout, place);
      const label = layout.folded ? { [SOURCE]: model.headOf(row), [MLP]: "MLP", [BIAS]: "biases" }[kind] : "";
      found.set(name, { kind, place, head, rows: [], x, y, flow: 0, size: 0, label });
      if (kind === SOURCE) heads.set(place, [...(heads.get(place) ?? []), found.get(name)]);
    }
    const node = found.get(name);
    node.rows.push(row);
    node.flow += kept.flow[row];
  }
  const aside = layout.folded ? layout.column / 2 - 26 : Math.min(11, 0.3 * layout.column);
  for (const node of found.values()) {
    if (node.kind === MLP) Object.assign(node, { x: node.x + aside, y: node.y + 0.22 * layout.rise });
    if (node.kind === BIAS) Object.assign(node, { x: node.x - aside - 3, y: node.y + 0.1 * layout.rise });
  }
  for (const row of heads.values()) {
    row.sort((one, other) => one.head - other.head);
    const step = layout.folded ? Math.min(64, (layout.column - 104) / row.length) : Math.min(9, (layout.column - 6) / row.length);
    row.forEach((node, at) => {
      node.x += (at - (row.length - 1) / 2) * step;
      node.y += 0.24 * layout.rise;
      if (layout.folded && step < 30 && at % 2) node.y += 22; // names need room
    });
  }
  return found;
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
    let [best, at] = [NEAR, -1];
    list.forEach((item, number) => {
      const distance = far(item);
      if (distance < best) [best, at] = [distance, number];
    });
    return at;
  };
  const node = nearest(nodes, (one) => Math.hypot(one.x - x, one.y - y));
  if (node >= 0) return { node };
  const line = nearest(lines, (one) => fromLine(one, x, y));
  return line < 0 ? null : { line };
}

/** How far a point is from a line. */
function fromLine({ x0, y0, x1, y1 }, x, y) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const along = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x0 + along * dx - x, y0 + along * dy - y);
}
