// @ts-check
// Walking through a flow graph with the arrow keys: from positions to parts and on. Knows numbers.

import { SOURCE } from "./flow_model.js";

/** A residual position or a part (by its row). @typedef {{ place: number } | { row: number }} Spot */

/**
 * Where a key leads: down from a position to its largest part, and from a part to where it comes
 * from; up from a part to where it leads, and from a position to the part that takes most of it;
 * sideways among the parts of one sum, or among positions of one height.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {import("./flow_model.js").Kept} kept
 * @param {Spot} spot
 * @param {string} key
 * @returns {Spot | null} null where the key leads nowhere
 */
export function walkFlow(model, kept, spot, key) {
  if (key === "Home") return { place: model.place(model.top, model.header.position) };
  return "row" in spot ? fromPart(model, kept, spot.row, key) : fromPlace(model, kept, spot.place, key);
}

function fromPart(model, kept, row, key) {
  if (key === "ArrowUp") return { place: model.targetOf(row) };
  if (key === "ArrowDown") return model.sourceOf(row) < 0 ? null : { place: model.sourceOf(row) };
  const beside = partsInto(model, kept, model.targetOf(row));
  const next = beside[beside.indexOf(row) + (key === "ArrowRight" ? 1 : -1)];
  return next === undefined ? null : { row: next };
}

function fromPlace(model, kept, place, key) {
  if (key === "ArrowDown") {
    const [row] = partsInto(model, kept, place);
    return row === undefined ? null : { row };
  }
  if (key === "ArrowUp") {
    const above = kept.rows.filter((row) => model.sourceOf(row) === place);
    return above.length ? { row: largestFirst(kept, above)[0] } : null;
  }
  const step = key === "ArrowRight" ? 1 : -1;
  const level = Math.floor(place / model.tokens);
  for (let token = (place % model.tokens) + step; token >= 0 && token < model.tokens; token += step) {
    if (kept.reached[model.place(level, token)]) return { place: model.place(level, token) };
  }
  return null;
}

/** The parts of a sum that are kept, largest first. @returns {number[]} */
export function partsInto(model, kept, place) {
  return largestFirst(kept, kept.rows.filter((row) => model.targetOf(row) === place));
}

export function largestFirst(kept, rows) {
  return rows.sort((one, other) => Math.abs(kept.flow[other]) - Math.abs(kept.flow[one]));
}

/**
 * The row whose head a click on a spot means; -1 where it means none.
 * @param {import("./flow_model.js").FlowModel} model
 * @param {Spot} spot
 */
export function headRow(model, spot) {
  return "row" in spot && model.kind[spot.row] === SOURCE ? spot.row : -1;
}
