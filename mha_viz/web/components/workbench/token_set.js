// @ts-check
// Tokens that are chosen together, as spans: first and last of each row of neighbours.

import { positionOf } from "./token_axes.js";

/** Places of the chosen tokens on an axis. @type {(spans: [number, number][], axis: any) => Set<number>} */
export function positionsOf(spans, axis) {
  const tokens = spans.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
  return new Set(tokens.map((token) => positionOf(axis, token)).filter((position) => position >= 0));
}

/** Spans of a chosen pair, which the first token chosen with it joins; without the token at `position`. @type {(axis: any, pair: { query: number, key: number }, position: number) => [number, number][]} */
export function spansOf(axis, { query, key }, position) {
  const positions = new Set([query, key].filter((at) => at >= 0 && at !== position));
  return [...positions].reduce((spans, at) => toggled(spans, axis, at), /** @type {[number, number][]} */ ([]));
}

/** Spans with the token at a position added, or removed where they had it. @type {(spans: [number, number][], axis: any, position: number) => [number, number][]} */
export function toggled(spans, axis, position) {
  const positions = positionsOf(spans, axis);
  if (!positions.delete(position)) positions.add(position);
  const tokens = [...positions].sort((a, b) => a - b).map((at) => [axis.groups[at][0], axis.groups[at].at(-1)]);
  return tokens.reduce(joinedTo, []);
}

/** Spans with one more, which continues the last one or begins anew. */
function joinedTo(spans, [first, last]) {
  const before = spans.at(-1);
  return before?.[1] === first - 1 ? [...spans.slice(0, -1), [before[0], last]] : [...spans, [first, last]];
}
