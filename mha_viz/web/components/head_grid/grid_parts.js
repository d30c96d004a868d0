// @ts-check
// The parts around the tiles: colour bar, tooltip, labels. Each fills an element it is given.
// Knows elements and text; nothing about where tiles lie.

import { colourAt, formatNumber, formatShort, keyedCanvas, layerName, make, scaleWeight, tokenElement } from "../shared/shared.js";
/* global PALETTE */

export const TIP_MS = 2500; // ms that the tooltip of a tap stays

/**
 * Fills the colour bar: a ramp of the scale, its ticks, and what masked cells look like.
 * @param {{ title: string, low: string, high: string }} [quantity] in place of attention weights
 */
export function drawLegend(legend, scale, theme, width, masked, quantity) {
  const stops = [];
  for (let i = 0; i <= 20; i++) stops.push(`rgb(${colourAt(i / 20, PALETTE.sequential[theme]).join(" ")})`);
  const ramp = make("div", "ramp");
  ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const ticks = make("div", "ticks");
  for (const { text, position } of quantity ? endTicks(quantity) : weightTicks(scale, width)) {
    const tick = make("span", "tick", text);
    tick.style.left = `${100 * position}%`;
    ticks.append(tick);
  }
  const name = { linear: "linear", sqrt: "square root", log: "logarithmic" }[scale];
  const [title, kind] = quantity ? [quantity.title, ""] : ["attention weight", name];
  const bar = make("div", "bar");
  bar.append(ramp, ticks);
  legend.replaceChildren(make("span", "legend-title", title), bar, make("span", "legend-kind", kind));
  if (masked && !quantity) {
    const swatch = make("span", "legend-masked", "masked");
    swatch.style.borderColor = PALETTE.missing[theme];
    legend.append(swatch);
  }
  legend.setAttribute("aria-label", quantity ? `Colour scale of ${title}` : `Colour scale of the attention weight, ${name}`);
}

/** Ticks of attention weights, none so near to another that they would run into each other. */
function weightTicks(scale, width) {
  const closest = width < 480 ? 0.17 : 0.075;
  const ticks = [];
  for (const weight of PALETTE.ticks[scale] ?? PALETTE.ticks.sqrt) {
    const position = scaleWeight(weight, scale);
    if (ticks.length && position - ticks.at(-1).position < closest) continue;
    ticks.push({ text: String(weight).replace(/^0\./, "."), position });
  }
  return ticks;
}

const endTicks = ({ low, high }) => [{ text: low, position: 0 }, { text: high, position: 1 }];

/** The lines of the tooltip about a head and, where given, one of its cells. */
export function fillTip(tip, header, name, fact, cell) {
  const title = make("div", "tip-title");
  title.append(make("b", "", name));
  if (fact) title.append(make("span", "tip-fact", `${fact.name} ${formatNumber(fact.value)}`));
  const parts = [title];
  if (cell) {
    parts.push(pairLine(header, cell.query, cell.key));
    const weight = make("div", "tip-weight");
    const kind = cell.pooled ? `largest of ${cell.pooled}×${cell.pooled} ` : "weight ";
    if (!cell.masked) weight.append(make("span", "tip-note", kind));
    weight.append(make("b", "weight", cell.weight));
    parts.push(weight);
    if (cell.top) {
      const at = pairLine(header, [cell.top.query, cell.top.query], [cell.top.key, cell.top.key]);
      at.prepend(make("span", "tip-note", "at "));
      parts.push(at);
    }
  }
  tip.replaceChildren(...parts);
}

function pairLine(header, query, key) {
  const line = make("div", "pair");
  line.append(
    ...side(header.query_labels, header.query_special, query),
    make("span", "arrow", " → "),
    ...side(header.key_labels, header.key_special, key),
  );
  return line;
}

function side(labels, special, [from, to]) {
  const first = tokenElement(labels[from], special[from]);
  if (from === to) return [first, make("sub", "position", String(from))];
  const last = tokenElement(labels[to], special[to]);
  return [first, make("span", "tip-note", " … "), last, make("sub", "position", `${from}–${to}`)];
}

/** Puts the tooltip beside a point of the component, on the side where there is room. */
export function placeTip(tip, root, x, y) {
  tip.hidden = false;
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const room = root.clientWidth;
  const left = x + 16 + width <= room ? x + 16 : Math.max(0, x - 16 - width);
  const below = root.getBoundingClientRect().top + y + 18 + height <= innerHeight;
  tip.style.left = `${Math.min(left, Math.max(0, room - width))}px`;
  tip.style.top = `${below ? y + 18 : Math.max(y - 12 - height, -height)}px`;
}

/** The names around a matrix of tiles: rows in an element of their own, columns above the tiles. */
export function drawAxes(rowLabels, columnLabels, layout, header) {
  const { layers, heads } = header;
  const rows = [];
  const columns = [];
  for (let layer = 0; layer < layers; layer++) {
    const span = make("span", "axis row", layerName(header, layer));
    span.style.top = `${layout.tileAt(layer * heads).y + layout.tileHeight / 2}px`;
    rows.push(span);
  }
  for (let head = 0; head < heads; head++) {
    const span = make("span", "axis column", `H${head}`);
    span.style.left = `${layout.tileAt(head).x + layout.tileWidth / 2}px`;
    columns.push(span);
  }
  rowLabels.replaceChildren(...rows);
  columnLabels.replaceChildren(...columns);
}

/** A caption over each tile: its head and, where a fact is chosen, the value. */
export function drawCaptions(captions, layout, names, values) {
  captions.replaceChildren(
    ...names.map((name, index) => {
      const caption = make("div", "caption");
      const tile = layout.tileAt(index);
      caption.style.left = `${tile.x}px`;
      caption.style.top = `${tile.y - layout.caption}px`;
      caption.style.width = `${layout.tileWidth}px`;
      caption.append(make("b", "", name));
      if (values) caption.append(make("span", "", (layout.tileWidth < 84 ? formatShort : formatNumber)(values[index])));
      return caption;
    }),
  );
}

/** The elements of the component, by name; `root` holds the others. */
export function buildGridParts() {
  const parts = { root: make("div", "mha head-grid") };
  for (const name of ["message", "top", "legend", "note", "body", "rows", "scroller", "stage"]) {
    parts[name] = make("div", name);
  }
  for (const name of ["columns", "captions", "badges", "off", "selected", "hovered", "focused", "cell", "tip"]) {
    parts[name] = make("div", name);
  }
  parts.canvas = keyedCanvas("cells", "grid of attention heads");
  parts.marks = make("canvas", "marks");
  parts.marks.hidden = true;
  parts.live = make("div", "live");
  parts.live.setAttribute("aria-live", "polite");
  parts.legend.setAttribute("role", "img");
  for (const name of ["rows", "columns", "captions", "badges", "marks", "off"]) parts[name].setAttribute("aria-hidden", "true");
  const { selected, hovered, focused, cell } = parts;
  for (const frame of [selected, hovered, focused, cell]) frame.hidden = true;
  parts.tip.hidden = true;
  parts.message.setAttribute("role", "status");
  parts.stage.append(parts.canvas, parts.marks, parts.columns, parts.captions, parts.badges, parts.off);
  parts.stage.append(hovered, selected, focused, cell);
  parts.scroller.append(parts.stage);
  parts.body.append(parts.rows, parts.scroller);
  parts.top.append(parts.note, parts.legend);
  parts.root.append(parts.top, parts.message, parts.body, parts.tip, parts.live);
  return parts;
}
