// @ts-check
// Walking through a flow graph with the arrow keys: from positions to parts and on. Knows numbers.

import { SOURCE } from "./flow_model.js";

/** A residual state or a part (by its row). @typedef {{ state: number } | { row: number }} Spot */

/**
 * The next spot for a key: down from a state to its largest part, and from a part to where it comes
 * from; up from a part to where it leads, and from a position to the part that takes most of it;
 * sideways among the parts of one sum, or among positions of one height.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {import("./flow_model.js").Subgraph} subgraph
 * @param {Spot} spot
 * @param {string} key
 * @returns {Spot | null} null where the key leads nowhere
 */
export function walkFlow(model, subgraph, spot, key) {
  if (key === "Home") return { state: model.stateAt(model.top, model.header.position) };
  return "row" in spot ? fromPart(model, subgraph, spot.row, key) : fromState(model, subgraph, spot.state, key);
}

function fromPart(model, subgraph, row, key) {
  if (key === "ArrowUp") return { state: model.targetOf(row) };
  if (key === "ArrowDown") return model.sourceOf(row) < 0 ? null : { state: model.sourceOf(row) };
  const beside = partsInto(model, subgraph, model.targetOf(row));
  const next = beside[beside.indexOf(row) + (key === "ArrowRight" ? 1 : -1)];
  return next === undefined ? null : { row: next };
}

function fromState(model, subgraph, state, key) {
  if (key === "ArrowDown") {
    const [row] = partsInto(model, subgraph, state);
    return row === undefined ? null : { row };
  }
  if (key === "ArrowUp") {
    const above = subgraph.rows.filter((row) => model.sourceOf(row) === state);
    return above.length ? { row: largestFirst(subgraph, above)[0] } : null;
  }
  const step = key === "ArrowRight" ? 1 : -1;
  const level = Math.floor(state / model.tokens);
  for (let token = (state % model.tokens) + step; token >= 0 && token < model.tokens; token += step) {
    if (subgraph.reached[model.stateAt(level, token)]) return { state: model.stateAt(level, token) };
  }
  return null;
}

/** The parts of the subgraph that write to a state, largest first. @returns {number[]} */
export function partsInto(model, subgraph, state) {
  return largestFirst(subgraph, subgraph.rows.filter((row) => model.targetOf(row) === state));
}

export function largestFirst(subgraph, rows) {
  return rows.sort((first, second) => Math.abs(subgraph.flow[second]) - Math.abs(subgraph.flow[first]));
}

/**
 * The row of the head that a spot belongs to; -1 where it belongs to none.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {Spot} spot
 */
export function headRow(model, spot) {
  return "row" in spot && model.kind[spot.row] === SOURCE ? spot.row : -1;
}
