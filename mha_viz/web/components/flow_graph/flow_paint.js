// @ts-check
// A flow graph as a list of shapes, and that list as a canvas or as SVG. Knows shapes and colours.

import { NAME_BASELINE, cutName } from "./flow_layout.js";
import { BIAS, MLP, SOURCE } from "./flow_model.js";
/* global PALETTE */

/** The kinds of nodes, by what they are called. */
export const FLOW_NAMES = { 0: "position", [SOURCE]: "head", [MLP]: "MLP", [BIAS]: "biases" };
const STROKE_STEPS = 10; // of width and strength: lines of a step share paths
const HALO_WIDTH = 3; // pixels around a name, in which no line is seen
const LINES_PER_PATH = 200; // lines of a path: one for each line, or for thousands, takes three times as long
const NOT_IN_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // no reader opens it

/** A path of SVG that is stroked or filled. @typedef {{ path: string, stroke?: string, fill?: string, width?: number, opacity?: number }} PathShape */
/** @typedef {{ text: string, x: number, y: number, fill: string, turn: number, anchor: "start" | "middle" | "end", bold?: boolean, italic?: boolean, halo?: string }} TextShape */

/**
 * The colour of each kind of part.
 * @param {"light" | "dark"} theme
 * @param {string} paper the colour behind the picture
 */
export function flowColours(theme, paper) {
  const several = PALETTE.qualitative[theme];
  return {
    kinds: { 0: PALETTE.muted[theme], [SOURCE]: several[0], [MLP]: several[1], [BIAS]: several[3] },
    signs: [PALETTE.diverging[theme][1], PALETTE.diverging[theme][5]], // below 0, above
    ink: PALETTE.ink[theme], muted: PALETTE.muted[theme], accent: PALETTE.accent[theme], paper: paper || PALETTE.paper[theme],
  };
}

/**
 * Lines, what is faint first, then nodes, then names.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {{ nodes: any[], lines: any[] }} items of `flowItems`
 * @param {any} layout
 * @param {ReturnType<typeof flowColours>} colours
 * @param {Uint8Array} reached which positions
 * @returns {(PathShape | TextShape)[]}
 */
export function flowShapes(model, { nodes, lines }, layout, colours, reached) {
  const steps = new Map();
  for (const line of lines) {
    const step = Math.min(STROKE_STEPS - 1, Math.floor(Math.sqrt(line.size) * STROKE_STEPS));
    const stroke = model.header.signed ? colours.signs[Number(line.flow >= 0)] : colours.kinds[line.kind];
    const name = `${step} ${stroke}`;
    if (!steps.has(name)) steps.set(name, { step, stroke, path: [] });
    steps.get(name).path.push(linePath(line));
  }
  const strokes = [...steps.values()].sort((first, second) => first.step - second.step).flatMap(({ step, stroke, path }) => {
    const strength = (step + 0.5) / STROKE_STEPS;
    const look = { stroke, width: 1 + 6 * strength ** 1.5, opacity: 0.4 + 0.6 * strength };
    const parts = [];
    for (let at = 0; at < path.length; at += LINES_PER_PATH) parts.push({ path: path.slice(at, at + LINES_PER_PATH).join(""), ...look });
    return parts;
  });
  const inner = nodes.filter((node) => node.label).map(({ label, x, y }) => ({
    text: cutName(label), x, y: y + NAME_BASELINE, turn: 0, anchor: /** @type {"middle"} */ ("middle"), fill: colours.ink, halo: colours.paper,
  }));
  const rings = nodes.filter((node) => isPinned(model, node)).map((node) => ({ path: nodePath(node, 5), stroke: colours.accent, width: 2 }));
  return [...strokes, ...rings, ...nodeShapes(nodes, colours), ...inner, ...nameShapes(model, layout, colours, reached)];
}

/** Tell whether a node is pinned, so that all paths pass it. */
function isPinned({ header, tokens }, { kind, head, state }) {
  return (header.signed?.pins ?? []).some((pin) => pin[0] === Math.floor(state / tokens) && pin[1] === kind &&
    (kind !== SOURCE || pin[2] === head) && (pin[3] < 0 || header.folded || pin[3] === state % tokens));
}

/** @type {(line: { x0: number, y0: number, x1: number, y1: number }) => string} */
export const linePath = ({ x0, y0, x1, y1 }) => `M${short(x0)} ${short(y0)}L${short(x1)} ${short(y1)}`;

/** @param {number} number */
const short = (number) => Math.round(number * 10) / 10;

function nodeShapes(nodes, colours) {
  const byKind = [0, SOURCE, MLP, BIAS].map((kind) => ({ kind, path: nodes.filter((node) => node.kind === kind).map((node) => nodePath(node)).join("") }));
  return byKind.filter(({ path }) => path).map(({ kind, path }) => ({
    path, fill: kind ? colours.kinds[kind] : colours.ink, stroke: colours.paper, width: 1,
  }));
}

/** A circle; a square for an MLP, and one on its tip for biases. */
export function nodePath({ kind, x, y, size }, more = 0) {
  const r = (kind ? 2.6 : 3) + 3 * Math.sqrt(size) + more;
  const [left, middle] = [short(x - r), short(y)];
  const d = short(2 * r);
  if (kind === MLP) return `M${left} ${short(y - r)}h${d}v${d}h${-d}z`;
  if (kind === BIAS) return `M${left} ${middle}L${short(x)} ${short(y - r)}L${short(x + r)} ${middle}L${short(x)} ${short(y + r)}z`;
  return `M${left} ${middle}a${short(r)} ${short(r)} 0 1 0 ${d} 0a${short(r)} ${short(r)} 0 1 0 ${-d} 0z`;
}

/** Tokens below, the chosen one also above. */
function nameShapes(model, layout, colours, reached) {
  const { labels, special, position } = model.header;
  const names = labels.map((label, token) => layout.folded ? ({
    text: cutName(label), x: layout.x(token), y: layout.bottom + 22, turn: 0, anchor: /** @type {"middle"} */ ("middle"), fill: colours.ink,
  }) : ({
    text: cutName(label), x: layout.x(token) + 4, y: layout.bottom + 16, turn: -55, anchor: "end",
    fill: reached[token] ? colours.ink : colours.muted, bold: token === position, italic: Boolean(special[token]),
  }));
  const above = { text: cutName(model.header.signed?.token ?? labels[position]), x: layout.x(position), y: 18, turn: 0, anchor: "middle", fill: colours.accent, bold: true };
  return [...names, above];
}

/** The layers' names, at the left edge of what is seen. */
export function layerShapes(model, layout, colours) {
  const names = [...Array(model.header.layers).keys()].map((layer) => ({
    text: `L${layer}`, x: 4, y: layout.y(2 * layer + 1) + 4, turn: 0, anchor: /** @type {"start"} */ ("start"), fill: colours.muted,
  }));
  const band = { path: `M0 0H${layout.gutter - 6}V${layout.high}H0z`, fill: colours.paper };
  return [band, ...names];
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {(PathShape | TextShape)[]} shapes
 * @param {string} font family
 */
export function paintShapes(context, shapes, font) {
  for (const shape of shapes) {
    if ("text" in shape) paintText(context, shape, font);
    else {
      const path = new Path2D(shape.path);
      context.globalAlpha = shape.opacity ?? 1;
      if (shape.fill) {
        context.fillStyle = shape.fill;
        context.fill(path);
      }
      if (shape.stroke) {
        context.strokeStyle = shape.stroke;
        context.lineWidth = shape.width ?? 1;
        context.stroke(path);
      }
      context.globalAlpha = 1;
    }
  }
}

/** @type {(context: CanvasRenderingContext2D, shape: TextShape, font: string) => void} */
function paintText(context, { text, x, y, fill, turn, anchor, bold, italic, halo }, font) {
  context.save();
  context.translate(x, y);
  context.rotate((turn * Math.PI) / 180);
  context.font = `${italic ? "italic " : ""}${bold ? "600 " : ""}12px ${font}`;
  context.textAlign = anchor === "middle" ? "center" : anchor;
  context.direction = "ltr";
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = HALO_WIDTH;
    context.lineJoin = "round";
    context.strokeText(text, 0, 0);
  }
  context.fillStyle = fill;
  context.fillText(text, 0, 0);
  context.restore();
}

/**
 * The same shapes as a file.
 * @param {(PathShape | TextShape)[]} shapes
 * @param {{ width: number, height: number, paper: string, font: string, title: string }} page
 */
export function svgText(shapes, { width, height, paper, font, title }) {
  const parts = shapes.map((shape) => {
    if (!("text" in shape)) {
      const stroke = shape.stroke ? ` stroke="${shape.stroke}" stroke-width="${shape.width ?? 1}"` : "";
      return `<path d="${shape.path}" fill="${shape.fill ?? "none"}"${stroke} opacity="${shape.opacity ?? 1}"/>`;
    }
    const { x, y, turn, anchor, fill, bold, italic, halo } = shape;
    const around = halo ? ` stroke="${halo}" stroke-width="${HALO_WIDTH}" stroke-linejoin="round" paint-order="stroke"` : "";
    const look = `${around}${bold ? ' font-weight="600"' : ""}${italic ? ' font-style="italic"' : ""}`;
    return `<text transform="translate(${x} ${y}) rotate(${turn})" text-anchor="${anchor}" fill="${fill}"${look}>${escaped(shape.text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escaped(font)}" font-size="12">` +
    `<title>${escaped(title)}</title><rect width="100%" height="100%" fill="${paper}"/>${parts.join("")}</svg>`;
}

const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** @param {string} text */
const escaped = (text) => text.replace(NOT_IN_XML, "\ufffd").replace(/[&<>"]/g, (sign) => SIGNS[sign]);
