// @ts-check
// Sentences about a node or a line of a flow graph. Knows numbers and labels.

import { BIAS, MLP, SOURCE } from "./flow_model.js";
import { formatNumber, formatWeight, trueMinus } from "../shared/shared.js";

/** A share as people write it. @param {number} share */
export const percent = (share) => `${trueMinus((100 * share).toFixed(share < 0.0995 ? 1 : 0))} %`;

/** A contribution with its sign. @param {number} value */
const signed = (value) => formatNumber(value, { signed: true });

/** @typedef {import("./flow_model.js").FlowModel} Model */
/** @typedef {import("./flow_model.js").Kept} Kept */

/**
 * A part: its name, and its numbers.
 * @param {Model} model
 * @param {Kept} kept
 * @param {number} row
 * @returns {string[]}
 */
export function partText(model, kept, row) {
  const { labels } = model.header;
  const layer = model.layerOf(row);
  const token = `“${labels[model.query[row]]}”`;
  const flow = kept.flow[row];
  const share = model.header.signed ? `${signed(flow)} logits` : `${percent(model.share[row])} of the sum at ${token}, ${percent(kept.flow[row])} of the chosen state`;
  if (model.kind[row] === SOURCE) {
    if (model.header.folded) return [`L${layer} ${model.headOf(row)}, over all tokens`, share];
    const weight = model.weight[row] ? [`attention weight ${formatWeight(model.weight[row])}`] : [];
    return [`L${layer} ${model.headOf(row)}: ${token} takes from “${labels[model.key[row]]}”`, share, ...weight];
  }
  if (model.kind[row] === MLP) return [`L${layer} MLP at ${token}`, share];
  if (model.kind[row] === BIAS) return [`L${layer} biases at ${token}`, share];
  const past = model.header.step === 2 ? "the layer" : model.level[row] % 2 ? "attention" : "the MLP";
  return [`L${layer}: ${token} passes ${past}`, share];
}

/**
 * A head, an MLP, biases or a residual position.
 * @param {Model} model
 * @param {Kept} kept
 * @param {any} node of `flowItems`
 * @returns {string[]}
 */
export function nodeText(model, kept, node) {
  if (node.kind && node.rows.length === 1) return partText(model, kept, node.rows[0]);
  const token = `“${model.header.labels[node.place % model.tokens]}”`;
  const flow = model.header.signed ? `${signed(node.flow)} logits` : `${percent(node.flow)} of the chosen state`;
  const level = Math.floor(node.place / model.tokens);
  if (node.kind) return [`L${Math.ceil(level / 2) - 1} ${model.headOf(node.rows[0])} at ${token}, from ${node.rows.length} tokens`, flow];
  if (level === model.top) return [`${token} behind the last layer`, model.header.signed ? flow : "chosen"];
  if (!level) return [`${token}, input token ${node.place % model.tokens}`, flow];
  return [`${token} ${level % 2 ? "behind attention of" : "before"} L${Math.floor(level / 2)}`, flow];
}

/** How much is followed, and how much was cut. @type {(model: Model, kept: Kept) => string} */
export function keptText(model, kept) {
  if (model.header.signed) return heldText(model, kept.rows.length);
  const token = model.header.labels[model.header.position];
  const parts = `${kept.rows.length} ${kept.rows.length === 1 ? "part" : "parts"}`;
  return `${parts}; ${percent(1 - kept.cut)} of “${token}” followed, ${percent(kept.cut)} cut`;
}

/** How much of a prediction a graph holds. @type {(model: Model, edges: number) => string} */
function heldText(model, edges) {
  const { held, value, rest, name } = model.header.signed;
  const behind = rest ? `; biases behind the last layer add ${signed(rest)}` : "";
  const whole = value - rest;
  const share = Math.abs(whole) > 1e-9 ? ` (${percent(held / whole)})` : "";
  return `${edges} ${edges === 1 ? "edge holds" : "edges hold"} ${signed(held)} of ${signed(whole)} logits for ${name}${share}${behind}`;
}
