// @ts-check
// The arithmetic behind a number of the picture, in words, and the matrices that it was made from.

import { dot } from "./sentence_model.js";
import { formatNumber } from "../shared/shared.js";

const MAX_PRODUCTS = 3; // products that are written out

/**
 * @typedef {import("./sentence_model.js").SentenceModel} SentenceModel
 * @typedef {import("./sentence_model.js").Matrix} Matrix
 * @typedef {{ kind: string, layer: number, head: number, row?: number, col?: number }} Source a row, a column, or both
 * @typedef {{ title: string, lines: string[], sources: Source[] }} Story
 */

/** A number in a sum: in brackets where it is below 0. @param {number} value */
const inSum = (value) => (value < 0 ? `(${formatNumber(value)})` : formatNumber(value));

const ORDINARY = {
  token: "token vector", position: "position vector", joined: "joined results", attention: "attention output",
  after: "stream after attention", query: "query", key: "key", value: "value", z: "result",
};

/**
 * @param {SentenceModel} model @param {Matrix} matrix @param {number} row @param {number} col
 * @returns {Story}
 */
export function storyOf(model, matrix, row, col) {
  const { kind, layer, head } = matrix;
  const names = model.header.tokens;
  const value = model.at(matrix, row, col);
  const token = `“${names[row]}”`;
  const number = formatNumber(value);
  const title = `${ORDINARY[kind] ?? kind} of ${token}, number ${col}`;
  const at = (kind_, layer_, row_, col_, head_ = 0) => ({ kind: kind_, layer: layer_, head: head_, row: row_, col: col_ });
  if (kind === "token") {
    return { title, lines: [`${number}: learned in training, the same wherever ${token} stands.`], sources: [] };
  }
  if (kind === "position") {
    return { title, lines: [`${number}: learned in training, the same for every token at position ${row}.`], sources: [] };
  }
  if (kind === "stream") return streamStory(model, layer, row, col, at);
  if (kind === "query" || kind === "key" || kind === "value") return projectedStory(model, matrix, row, col, at, title);
  if (kind === "score" || kind === "weight") return pairStory(model, matrix, row, col);
  if (kind === "z") {
    const weights = model.row("weight", layer, head, row);
    const parts = Array.from(weights.subarray(0, row + 1), (weight, token_) => ({
      text: `${formatNumber(weight)} × ${inSum(model.row("value", layer, head, token_)[col])} (${names[token_]})`,
      size: Math.abs(weight * model.row("value", layer, head, token_)[col]),
    }));
    const sources = [at("weight", layer, row, undefined, head), at("value", layer, undefined, col, head)];
    return { title, lines: [`${number} = weights × values: ${largest(parts)}`], sources };
  }
  if (kind === "joined") {
    const from = Math.floor(col / model.depth);
    const sources = [at("z", layer, row, col % model.depth, from)];
    return { title, lines: [`${number}: number ${col % model.depth} of what H${from} gathered.`], sources };
  }
  if (kind === "attention") return attentionStory(model, layer, row, col, at, title);
  if (kind === "after") {
    const [stream, added] = [model.row("stream", layer, 0, row)[col], model.row("attention", layer, 0, row)[col]];
    const sources = [at("stream", layer, row, col), at("attention", layer, row, col)];
    return { title, lines: [`${number} = ${inSum(stream)} (stream) + ${inSum(added)} (attention)`], sources };
  }
  return guessStory(model, matrix, row, col);
}

/** The largest of some parts as a sum, with what is left counted. */
function largest(parts) {
  const sorted = [...parts].sort((a, b) => b.size - a.size);
  const left = sorted.length - MAX_PRODUCTS;
  return sorted.slice(0, MAX_PRODUCTS).map((part) => part.text).join(" + ") + (left > 0 ? ` + ${left} smaller` : "");
}

function streamStory(model, layer, row, col, at) {
  const token = model.header.tokens[row];
  const value = model.row("stream", layer, 0, row)[col];
  if (layer === 0) {
    const [word, positional] = ["token", "position"].map((kind) => model.row(kind, 0, 0, row)[col]);
    return {
      title: `vector of “${token}”, number ${col}`,
      lines: [`${formatNumber(value)} = ${inSum(word)} (token “${token}”) + ${inSum(positional)} (position ${row})`],
      sources: [at("token", 0, row, col), at("position", 0, row, col)],
    };
  }
  const after = model.at({ kind: "after", layer: layer - 1, head: 0 }, row, col);
  return {
    title: `residual stream of “${token}” behind layer ${layer - 1}, number ${col}`,
    lines: [`${formatNumber(value)} = ${inSum(after)} (after attention) + ${inSum(value - after)} (MLP of layer ${layer - 1})`],
    sources: [at("after", layer - 1, row, col)],
  };
}

function projectedStory(model, { kind, layer, head }, row, col, at, title) {
  const value = model.row(kind, layer, head, row)[col];
  const letter = { query: "Q", key: "K", value: "V" }[kind];
  const sources = [at("stream", layer, row, undefined)];
  const [ownLayer, ownHead] = model.header.author;
  const product = `the ${model.width} numbers of “${model.header.tokens[row]}” × column ${col} of W_${letter}`;
  if (layer !== ownLayer || head !== ownHead) {
    return { title, lines: [`${formatNumber(value)} = ${product}, plus a bias`, "(the row is first brought to one length: layer norm)"], sources };
  }
  const { inputs, weights, projectionBiases } = model.arrays;
  const projection = ["query", "key", "value"].indexOf(kind);
  const parts = Array.from({ length: model.width }, (_, i) => {
    const [x, w] = [inputs[row * model.width + i], weights[(projection * model.width + i) * model.depth + col]];
    return { text: `${inSum(x)} × ${inSum(w)}`, size: Math.abs(x * w) };
  });
  const bias = projectionBiases[projection * model.depth + col];
  return {
    title,
    lines: [`${formatNumber(value)} = ${product}:`, `${largest(parts)}, + ${inSum(bias)} (bias)`, "(the row is first brought to one length: layer norm)"],
    sources,
  };
}

function pairStory(model, { kind, layer, head }, row, col) {
  const [from, to] = [model.header.tokens[row], model.header.tokens[col]];
  const score = model.score(layer, head, row, col);
  const title = `${kind} of “${to}” for “${from}”`;
  const pair = [{ kind: "query", layer, head, row }, { kind: "key", layer, head, row: col }];
  if (col > row) {
    const lines = [`“${to}” comes later, and “${from}” may not see it: the mask sets its score to −∞, its weight to 0.`];
    return { title, lines, sources: [] };
  }
  if (kind === "score") {
    const product = dot(model.row("query", layer, head, row), model.row("key", layer, head, col));
    return { title, lines: [`${formatNumber(score)} = q · k / √${model.depth} = ${formatNumber(product)} / ${formatNumber(Math.sqrt(model.depth))}`], sources: pair };
  }
  const weight = model.row("weight", layer, head, row)[col];
  const scores = Array.from({ length: row + 1 }, (_, key) => model.score(layer, head, row, key));
  const top = Math.max(...scores);
  const sum = scores.reduce((total, score) => total + Math.exp(score - top), 0);
  return {
    title,
    lines: [
      `${formatNumber(weight)} = softmax of ${formatNumber(score)} among the ${row + 1} scores of its row`,
      `= e^${inSum(score)} / sum = ${formatNumber(Math.exp(score))} / ${formatNumber(sum * Math.exp(top))}`,
    ],
    sources: [{ kind: "score", layer, head, row }],
  };
}

function attentionStory(model, layer, row, col, at, title) {
  const value = model.row("attention", layer, 0, row)[col];
  const sources = [at("joined", layer, row, undefined)];
  const product = `${formatNumber(value)} = the ${model.width} numbers of the joined row × column ${col} of W_O, plus a bias`;
  if (row < model.tokens - 1) return { title, lines: [product], sources };
  const parts = Array.from({ length: model.heads }, (_, head) => {
    const part = model.arrays.written[(layer * model.heads + head) * model.width + col];
    return { text: `${inSum(part)} (H${head})`, size: Math.abs(part) };
  });
  const bias = model.arrays.biases[layer * model.width + col];
  return { title, lines: [product, `by head: ${largest(parts)}, + ${inSum(bias)} (biases)`], sources };
}

function guessStory(model, { kind }, row, col) {
  const { final, logits, withAll, shares } = model.arrays;
  if (kind === "final") {
    const source = { kind: "stream", layer: model.layers, head: 0, row: model.tokens - 1 };
    return { title: `last vector, number ${col}`, lines: [`${formatNumber(final[col])}: the last row of the stream, brought to one length.`], sources: [source] };
  }
  const label = model.header.guesses[row];
  const title = `probability of “${label}”`;
  const { off, heads } = model;
  if (off !== null) {
    const name = model.name(Math.floor(off / heads), off % heads);
    return { title, lines: [`${formatNumber(model.probabilities()[row])} with ${name} off; ${formatNumber(withAll[row])} with all heads.`], sources: [] };
  }
  const lines = [
    `${formatNumber(withAll[row])} = e^${formatNumber(logits[row])} / sum of e^logit over the vocabulary`,
    `= e^(${formatNumber(logits[row])} − ${formatNumber(model.header.logTotal)})`,
    `${formatNumber(logits[row])} = last vector · vector of “${label}”`,
  ];
  if (row === 0) {
    const parts = Array.from(shares, (share, i) => ({ text: `${inSum(share)} (${model.name(Math.floor(i / heads), i % heads)})`, size: Math.abs(share) }));
    lines.push(`of which heads add directly: ${largest(parts)}`);
  }
  return { title, lines, sources: [{ kind: "final", layer: 0, head: 0, row: 0 }] };
}
