// @ts-check
// Sentences about a node or a line of a flow graph. Knows numbers and labels.

import { BIAS, MLP, SOURCE } from "./flow_model.js";
import { formatNumber, formatWeight, trueMinus } from "../shared/shared.js";

/** A share as people write it. @param {number} share */
export const percent = (share) => `${trueMinus((100 * share).toFixed(share < 0.0995 ? 1 : 0))} %`;

/** A contribution with its sign. @param {number} value */
const signed = (value) => formatNumber(value, { signed: true });

/** @typedef {import("./flow_model.js").FlowModel} Model */
/** @typedef {import("./flow_model.js").Subgraph} Subgraph */

/**
 * A part: its name, and its numbers.
 * @param {Model} model
 * @param {Subgraph} subgraph
 * @param {number} row
 * @returns {string[]}
 */
export function partText(model, subgraph, row) {
  const { labels } = model.header;
  const layer = model.layerOf(row);
  const token = `“${labels[model.query[row]]}”`;
  const flow = subgraph.flow[row];
  const share = model.header.signed ? `${signed(flow)} logits` : `${percent(model.share[row])} of the sum at ${token}, ${percent(subgraph.flow[row])} of the chosen state`;
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
 * @param {Subgraph} subgraph
 * @param {any} node of `flowItems`
 * @returns {string[]}
 */
export function nodeText(model, subgraph, node) {
  if (node.kind && node.rows.length === 1) return partText(model, subgraph, node.rows[0]);
  const token = `“${model.header.labels[node.state % model.tokens]}”`;
  const flow = model.header.signed ? `${signed(node.flow)} logits` : `${percent(node.flow)} of the chosen state`;
  const level = Math.floor(node.state / model.tokens);
  if (node.kind) return [`L${Math.ceil(level / 2) - 1} ${model.headOf(node.rows[0])} at ${token}, from ${node.rows.length} tokens`, flow];
  if (level === model.top) return [`${token} behind the last layer`, model.header.signed ? flow : "chosen"];
  if (!level) return [`${token}, input token ${node.state % model.tokens}`, flow];
  return [`${token} ${level % 2 ? "behind attention of" : "before"} L${Math.floor(level / 2)}`, flow];
}

/** Shares of the flow that are drawn and that the threshold cut. @type {(model: Model, subgraph: Subgraph) => string} */
export function subgraphText(model, subgraph) {
  if (model.header.signed) return predictionText(model, subgraph.rows.length);
  const token = model.header.labels[model.header.position];
  const parts = `${subgraph.rows.length} ${subgraph.rows.length === 1 ? "part" : "parts"}`;
  return `${parts}; ${percent(1 - subgraph.cut)} of “${token}” followed, ${percent(subgraph.cut)} cut`;
}

/** The part of a prediction that the graph explains. @type {(model: Model, edges: number) => string} */
function predictionText(model, edges) {
  const { held: explained, value, rest: biases, name } = model.header.signed;
  const behind = biases ? `; biases behind the last layer add ${signed(biases)}` : "";
  const explainable = value - biases;
  const share = Math.abs(explainable) > 1e-9 ? ` (${percent(explained / explainable)})` : "";
  return `${edges} ${edges === 1 ? "edge holds" : "edges hold"} ${signed(explained)} of ${signed(explainable)} logits for ${name}${share}${behind}`;
}
